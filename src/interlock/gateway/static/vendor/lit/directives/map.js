export*from"lit-html/directives/map.js";
//# sourceMappingURL=map.js.map
