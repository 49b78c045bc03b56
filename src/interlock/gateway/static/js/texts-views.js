export const VIEW_TEXTS = { en: {}, zh: {} };
