/** How the nodes of a run stand, read from what `runs.get` gave. Pure. */

/** @typedef {'none'|'ready'|'running'|'waiting'|'done'|'failed'|'cancelled'} NodeState */

const STATES = { ready: 'ready', active: 'running', completed: 'done', failed: 'failed', cancelled: 'cancelled' };

const BROKEN = new Set(['failed', 'cancelled']);

/** The visit that the run is at, as the server has it: what is worked on, else what did not get to an end. */
export function currentVisit({ run, visits }) {
  if (run.status !== 'running' && run.status !== 'paused') return null;
  const at = visits.findLast(({ status, kind }) => (status === 'ready' || status === 'active') && kind !== 'subworkflow');
  if (at || run.status === 'running') return at ?? null;
  const broken = visits.filter(({ status }) => BROKEN.has(status));
  return broken.toSorted((a, b) => (a.ended_us ?? 0) - (b.ended_us ?? 0) || a.number - b.number).at(-1) ?? null;
}

/** @param {any} shown what runs.get gave @param {any} visit @returns {NodeState} */
export function visitState(shown, visit) {
  if (!visit) return 'none';
  const waits = shown.is_waiting && visit.status === 'active' && visit === currentVisit(shown);
  return waits ? 'waiting' : (STATES[visit.status] ?? 'none');
}

/** Each node of a frame: its state, how often it was done, and whether the run is there. */
export function nodeStates(shown, frame, graph) {
  const here = currentVisit(shown);
  return new Map(graph.nodes.map(({ name }) => {
    const visits = shown.visits.filter((visit) => visit.frame === frame && visit.node === name);
    const completed = visits.filter(({ status }) => status === 'completed').length;
    const holds = here !== null && (visits.includes(here) || visits.some(({ visit }) => here.frame.startsWith(`${frame}${name}#${visit}/`)));
    return [name, { state: visitState(shown, visits.at(-1)), completed, isCurrent: holds }];
  }));
}

/** How often each edge of a frame was gone along. @returns {(edge: any) => number} */
export function edgeCounter(shown, frame) {
  const gone = shown.visits.filter((visit) => visit.frame === frame && visit.next);
  return ({ from, to, label }) =>
    gone.filter((visit) => visit.node === from && visit.next === to && (!visit.label || visit.label === label)).length;
}

/** The graphs of a run: its own, and one for each time that it went into another workflow. */
export function graphFrames({ run, workflows, visits }) {
  const root = workflows[run.workflow];
  if (!root) return [];
  const frames = [...new Set(visits.map(({ frame }) => frame))].filter(Boolean).sort();
  const known = frames.map((frame) => ({ frame, graph: graphOf(frame, root, workflows), name: frame.replace(/\/$/, '') }));
  return [{ frame: '', graph: root, name: root.name }, ...known.filter(({ graph }) => graph)];
}

/** `polish#2/` is the second time at the node polish; what is inside is the workflow of that node. */
function graphOf(frame, root, workflows) {
  let graph = root;
  for (const step of frame.split('/').filter(Boolean)) {
    const node = graph?.nodes.find(({ name }) => name === step.split('#')[0]);
    graph = workflows[node?.workflow];
  }
  return graph;
}

/** What a person can do with the run as it stands. */
export function possible(shown) {
  const { status } = shown.run;
  const broke = BROKEN.has(currentVisit(shown)?.status);
  return {
    pause: status === 'running',
    resume: status === 'paused' && !broke,
    retry: status === 'paused' && broke,
    stop: status === 'running' || status === 'paused',
  };
}
