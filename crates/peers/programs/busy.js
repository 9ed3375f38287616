function leaf(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i * s + 1); return s; }
function twig(n) { const o = {}; for (let i = 0; i < n; i++) o['k' + i] = leaf(200); return JSON.stringify(o).length; }
function branch(n) { let s = 0; for (let i = 0; i < n; i++) s += twig(50); return s; }
let sum = 0;
for (let round = 0; round < 40; round++) sum += [1, 2, 3, 4].map(() => branch(200)).reduce((a, b) => a + b);
console.log(sum);
