const LAYERS_AT_FIRST = 60;
const result = data.result;
const comparison = result.comparison;
const decibels = x => x === 'Infinity' ? 'exact' : known(x) ? x.toFixed(1) + ' dB' : fixed(x, 1);
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

let allLayers = false;

function layers() {
    if (measured.length === 0) return hide('layers');
    table(byId('layer-table'), [['Layer'], ['SQNR', true]], result.layers.map(l => [[l.reference, 'name'], decibels(l.sqnrDb)]));
    byId('layer-more').hidden = measured.length <= LAYERS_AT_FIRST;
    byId('layer-more').onclick = () => { allLayers = !allLayers; drawLayers(); };
    byId('layer-order').onchange = drawLayers;
    drawLayers();
}

function drawLayers() {
    const ordered = byId('layer-order').value === 'worst' ? [...measured].sort((a, b) => a.sqnrDb - b.sqnrDb) : measured;
    const shown = allLayers ? ordered : ordered.slice(0, LAYERS_AT_FIRST);
    const mean = measured.reduce((sum, l) => sum + l.sqnrDb, 0) / measured.length;
    byId('layer-more').textContent = allLayers ? 'Show ' + LAYERS_AT_FIRST : 'Show all ' + measured.length;
    decibelBars(byId('layer-chart'), 'Bar chart of the error of ' + shown.length + ' layers; the numbers are in the table below',
        shown.map(l => ({
            name: l.reference,
            title: l.reference,
            value: l.sqnrDb,
            text: decibels(l.sqnrDb),
            warn: l.sqnrDb < mean - 6,
        })));
}

head();
gates();
outputs();
layers();
noteList(result.notes);
runFacts(data.run);

onColours(() => {
    if (byId('layers')) drawLayers();
});
