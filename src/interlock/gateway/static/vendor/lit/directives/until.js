export*from"lit-html/directives/until.js";
//# sourceMappingURL=until.js.map
