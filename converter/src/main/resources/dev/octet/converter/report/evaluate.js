const result = data.result;
const comparison = result.comparison;
const measured = result.layers.filter(l => known(l.sqnrDb));

/** The gates first, because they were asked for; else how near the worst output is. */
function verdict() {
    const failed = result.gates.filter(g => !g.passed);
    if (failed.length > 0) {
        return (result.gates.length === 1 ? 'The gate failed' : failed.length + ' of ' + result.gates.length + ' gates failed')
            + ': ' + failed.map(g => g.measure + ' is ' + (known(g.value) ? fixed(g.value, 5) + (g.value < g.limit ? ', below ' : ', above ') + g.limit
                : 'not known')).join('; ');
    }
    if (result.gates.length > 0) {
        return result.gates.length === 1 ? 'The gate passed' : 'All ' + result.gates.length + ' gates passed';
    }
    if (comparison.outputs.every(o => o.sqnrDb === 'Infinity')) return 'The outputs are the same';
    const worst = [...comparison.outputs].sort((a, b) => a.cosineMean - b.cosineMean)[0];
    return 'The outputs have cosine ' + fixed(worst.cosineMean, 5) + ', ' + fixed(worst.cosineMin, 5) + ' at worst';
}

function head() {
    byId('verdict').textContent = verdict();
    byId('line').textContent = comparison.samples + ' samples of ' + result.data;
    table(byId('model-table'), [[''], ['Model']],
        [['reference', [result.reference, 'name']], ['candidate', [result.candidate, 'name']]]);
    const all = [];
    comparison.outputs.slice(0, 2).forEach(o => {
        all.push(['Cosine of ' + o.output, fixed(o.cosineMean, 5), 'smallest ' + fixed(o.cosineMin, 5)]);
        all.push(['SQNR of ' + o.output, decibels(o.sqnrDb), '']);
    });
    const e = comparison.embedding;
    if (e) all.push(['Sentence embeddings', fixed(e.cosineMean, 5), 'cosine, mean; Spearman ' + fixed(e.spearman, 5)]);
    const p = comparison.perplexity;
    if (p) {
        all.push(['Perplexity', fixed(p.candidate.perplexity, 3), 'reference ' + fixed(p.reference.perplexity, 3)
            + ', change ' + (p.change >= 0 ? '+' : '') + fixed(100 * p.change, 3) + ' %']);
    }
    facts(all);
}

function gates() {
    if (result.gates.length === 0) return hide('gates');
    table(byId('gate-table'), [['Gate'], ['Value', true], ['Limit', true], ['']],
        result.gates.map(g => [g.of ? g.measure + ', ' + g.of : g.measure, fixed(g.value, 5), String(g.limit),
            g.passed ? ['passed', 'converted'] : ['FAILED', 'kept']]));
}

function outputs() {
    table(byId('output-table'), [['Output'], ['Cosine, mean', true], ['smallest', true], ['SQNR', true], ['Top-1 agreement', true]],
        comparison.outputs.map(o => [[o.output, 'name'], fixed(o.cosineMean, 5), fixed(o.cosineMin, 5), decibels(o.sqnrDb),
            share(o.top1Agreement)]));
}

/** Draws the chart of layers anew. */
let redrawLayers = () => {};

function layers() {
    const mean = measured.reduce((sum, l) => sum + l.sqnrDb, 0) / measured.length;
    redrawLayers = layerSection({
        measure: 'at the output of each Linear, with the error that comes in from the layers before it',
        layers: result.layers.map(l => ({name: l.reference, title: l.reference, sqnrDb: l.sqnrDb, warn: l.sqnrDb < mean - 6})),
        columns: [['Layer'], ['SQNR', true]],
        rows: result.layers.map(l => [[l.reference, 'name'], decibels(l.sqnrDb)]),
        worstFirst: true,
    });
}

head();
gates();
outputs();
layers();
noteList(result.notes);
runFacts(data.run);

onColours(() => redrawLayers());
