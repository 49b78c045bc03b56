// Evaluated in the page: a graph as it would be drawn, in numbers, and how long that took.
async (graph) => {
  const { layoutOf } = await import('/static/js/runs/layout.js');
  const begun = performance.now();
  const { left, width, height, nodes, edges } = layoutOf(graph, (edge) => edge.label ?? '');
  const seconds = (performance.now() - begun) / 1000;
  return {
    seconds,
    left,
    width,
    height,
    nodes: nodes.map(({ node, x, y, width: wide, height: high }) => ({ name: node.name, x, y, wide, high })),
    edges: edges.map(({ edge, path, head, isBack, at, reach }) => ({ ...edge, path: path + head, isBack, at, reach })),
  };
};
