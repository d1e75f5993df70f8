const WORST = 30;
const ROWS_AT_A_TIME = 200;
const outcome = data.outcome;
const measured = data.weights.filter(w => known(w.sqnrDb));

function head() {
    const smaller = 100 - 100 * outcome.targetBytes / outcome.sourceBytes;
    const worst = [...measured].sort((a, b) => a.sqnrDb - b.sqnrDb)[0];
    byId('verdict').textContent = data.weights.length + (data.weights.length === 1 ? ' weight' : ' weights') + ' quantised, '
        + (smaller >= 0 ? smaller.toFixed(0) + ' % smaller' : (-smaller).toFixed(0) + ' % larger')
        + (worst ? ', the worst weight has ' + decibels(worst.sqnrDb) : '');
    byId('line').textContent = [outcome.model, outcome.recipe && 'recipe ' + outcome.recipe,
        outcome.rounding && 'rounding ' + outcome.rounding, 'layout ' + outcome.target].filter(Boolean).join(' · ');
    facts([
        ['Size', bytes(outcome.targetBytes), 'was ' + bytes(outcome.sourceBytes)],
        ['Weights', String(data.weights.length), Object.entries(outcome.exactness).map(([k, n]) => n + ' ' + k).join(', ')],
        ['SQNR, all together', decibels(data.sqnrDb), 'worst tensor ' + decibels(data.sqnrDbMin)],
        ['Kept', String(outcome.kept.length), 'matrices stay as they are'],
    ].concat(outcome.staticInputs > 0 ? [['Static inputs', String(outcome.staticInputs), 'weights']] : [],
        outcome.kvCacheLayers > 0 ? [['KV cache', String(outcome.kvCacheLayers), 'attention layers with scales']] : []));
}

function worst() {
    const shown = [...measured].sort((a, b) => a.sqnrDb - b.sqnrDb).slice(0, WORST);
    if (shown.length === 0) return hide('worst');
    const mean = measured.reduce((sum, w) => sum + w.sqnrDb, 0) / measured.length;
    decibelBars(byId('worst-chart'),
        'Bar chart of the SQNR of the ' + shown.length + ' worst weights; the numbers are in the table below',
        shown.map(w => ({name: w.name, title: w.name, value: w.sqnrDb, text: decibels(w.sqnrDb), warn: w.sqnrDb < mean - 6})));
}

let shownRows = ROWS_AT_A_TIME;

function weights() {
    byId('weight-filter').oninput = () => { shownRows = ROWS_AT_A_TIME; listWeights(); };
    byId('weight-more').onclick = () => { shownRows += ROWS_AT_A_TIME; listWeights(); };
    listWeights();
}

function listWeights() {
    const wanted = byId('weight-filter').value.toLowerCase();
    const found = data.weights.filter(w => (w.name + ' ' + w.scheme).toLowerCase().includes(wanted));
    byId('weight-count').textContent = found.length + ' of ' + data.weights.length;
    offerMore('weight-more', found.length - shownRows, ROWS_AT_A_TIME);
    table(byId('weight-table'), [['Weight'], ['SQNR', true], ['Cosine', true], ['Largest error', true], ['Format']],
        found.slice(0, shownRows).map(w => [[w.name, 'name'], decibels(w.sqnrDb), fixed(w.cosine, 6), short(w.maxAbsError), [w.scheme, 'scheme']]));
}

function kept() {
    if (outcome.kept.length === 0) return hide('kept');
    table(byId('kept-table'), [['Matrix'], ['Why']], outcome.kept.map(k => [[k.name, 'name'], [k.reason, 'name']]));
}

head();
sizes(data.parts);
worst();
weights();
kept();
noteList(outcome.notes.concat(outcome.leftBehind.map(l => 'left behind: ' + l)));
runFacts(data.run);

onColours(() => {
    if (byId('size')) sizes(data.parts);
    if (byId('worst')) worst();
});
