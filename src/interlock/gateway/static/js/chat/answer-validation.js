/**
 * Whether an answer fits its question, as questions/answers.py and fields.py have it. Pure: what is found wrong is
 * told as {path: [text key, values]}, in the same paths as the server's.
 */

const MAX_COMMENT = 4000;
const MAX_OTHER = 500;
const TEXT_CHARS = { text: 500, multiline: 4000 };
const LARGEST = 2 ** 53;

const length = (text) => [...text].length;

/** What the widget shows before anybody touched it. */
function initialDraft(document) {
  switch (document.type) {
    case 'form':
      return { values: Object.fromEntries(document.fields.map((field) => [field.name, initialValue(field)])) };
    case 'selection':
      return { choices: [], other: '', usesOther: false };
    case 'feedback':
      return { rating: null, comment: '' };
    case 'confirmation':
      return { meant: false };
    default:
      return { comment: '' };
  }
}

/** With what was filled in before this view was left. That something dangerous is meant is said each time anew. */
export function restoreDraft(document, text) {
  const draft = initialDraft(document);
  if (!text || document.type === 'confirmation') return draft;
  try {
    const before = JSON.parse(text);
    return { ...draft, ...before, ...(draft.values && { values: { ...draft.values, ...before.values } }) };
  } catch {
    return draft;
  }
}

function initialValue(field) {
  if (field.type === 'boolean') return field.default ?? false;
  if (field.type === 'multi_select') return field.default ?? [];
  return field.default === undefined ? '' : String(field.default);
}

/**
 * @param {any} document the question
 * @param {any} draft what the widget holds
 * @param {any} [decision] what the pressed button stands for
 * @returns {{answer: object|null, errors: Record<string, [string, object?]>}}
 */
export function validateAnswer(document, draft, decision) {
  const errors = {};
  const answer = READERS[document.type](document, draft, errors, decision);
  return { answer: Object.keys(errors).length ? null : answer, errors };
}

const READERS = {
  form(document, draft, errors) {
    const values = {};
    for (const field of document.fields) values[field.name] = fieldValue(field, draft.values[field.name], errors);
    return { values };
  },

  selection(document, draft, errors) {
    const order = document.options.map((option) => option.value);
    const answer = { choices: order.filter((value) => draft.choices.includes(value)) };
    if (document.allow_other && draft.usesOther) {
      const other = draft.other.trim();
      if (!other) errors.other = ['question.empty'];
      else if (length(other) > MAX_OTHER) errors.other = ['question.too_long', { n: MAX_OTHER }];
      else answer.other = other;
    }
    const count = answer.choices.length + ('other' in answer ? 1 : 0);
    const { min_choices: low = 1, max_choices: high = 1 } = document;
    if (!errors.other && (count < low || count > high)) errors.choices = choicesError(low, high);
    return answer;
  },

  confirmation(document, draft, errors, decision) {
    if (decision && document.dangerous && !draft.meant) errors.confirmed = ['question.mean_it'];
    return { confirmed: decision };
  },

  plan_review(_document, draft, errors, decision) {
    return { decision, ...comment(draft, decision === 'revise' ? 'required' : 'optional', errors) };
  },

  feedback(document, draft, errors) {
    const answer = {};
    if (document.rating_max !== undefined) {
      if (draft.rating === null) errors.rating = ['question.rate'];
      answer.rating = draft.rating;
    }
    return { ...answer, ...comment(draft, document.comment ?? 'optional', errors) };
  },

  action_selection(_document, draft, errors, decision) {
    return { action: decision, ...comment(draft, 'optional', errors) };
  },
};

function choicesError(low, high) {
  if (low === high) return ['question.choose', { n: low }];
  return low === 0 ? ['question.choose_most', { n: high }] : ['question.choose_between', { low, high }];
}

function comment(draft, wanted, errors) {
  const text = draft.comment ?? '';
  if (wanted === 'none') return {};
  if (!text.trim()) {
    if (wanted === 'required') errors.comment = ['question.say_it'];
    return {};
  }
  if (length(text) > MAX_COMMENT) errors.comment = ['question.too_long', { n: MAX_COMMENT }];
  return { comment: text };
}

/** A value for every field; null where it was left empty. */
function fieldValue(field, given, errors) {
  const path = `values.${field.name}`;
  if (given === '' || given === null || (Array.isArray(given) && !given.length)) {
    if (field.required) errors[path] = ['question.required'];
    return null;
  }
  const wrong = (...problem) => {
    errors[path] = problem;
    return null;
  };
  switch (field.type) {
    case 'number':
    case 'integer':
      return numberValue(field, given, wrong);
    case 'text':
    case 'multiline': {
      const most = field.max_length ?? TEXT_CHARS[field.type];
      if (length(given) > most) return wrong('question.too_long', { n: most });
      return field.required && !given.trim() ? wrong('question.required') : given;
    }
    default:
      return given;
  }
}

function numberValue(field, given, wrong) {
  const number = Number(given);
  if (!Number.isFinite(number) || Math.abs(number) > LARGEST) return wrong('question.number');
  if (field.type === 'integer' && !Number.isInteger(number)) return wrong('question.whole_number');
  if (field.min !== undefined && number < field.min) return wrong('question.at_least', { n: field.min });
  if (field.max !== undefined && number > field.max) return wrong('question.at_most', { n: field.max });
  return number;
}

/** The server's "path: problem" as the same kind of thing. @param {string} message */
export function serverErrors(message) {
  const found = /^([\w.-]+)(?:\[\d+\])?: (.+)$/s.exec(message);
  return found ? { [found[1]]: ['question.server', { problem: found[2] }] } : { '': ['question.server', { problem: message }] };
}
