const WORST = 30;
const ROWS_AT_A_TIME = 200;
const ERROR_BINS = ['≤ 1/64', '≤ 1/4', '≤ 1/2', '≤ 3/4', '≤ 1', '≤ 2', '≤ 8', '> 8'];
const FIRST_BIN_BEYOND = 3;
const WORDS = {IDENTICAL: 'identical', SAME_VALUES: 'same values', WITHIN_ONE_ROUNDING: 'one rounding', BEYOND: 'beyond'};
const nameOf = t => (t.a === t.b ? t.a : t.a + ' = ' + t.b) + (t.transposed ? ' (transposed)' : '');

const summary = data.summary;
const count = closeness => summary.byCloseness[closeness] || 0;
const complete = data.uncomparable.length + data.onlyA.length + data.onlyB.length === 0;

function head() {
    const compensated = data.tensors.filter(t => t.closeness === 'BEYOND' && t.rounding.verdict === 'COMPENSATED').length;
    const verdict = compensated > 0 && compensated === count('BEYOND')
        ? compensated + ' of ' + summary.pairs + ' tensors were rounded with GPTQ; the others differ by one rounding at most'
        : !complete || count('BEYOND') > 0 || count('WITHIN_ONE_ROUNDING') > 0
        ? count('BEYOND') > 0 ? count('BEYOND') + ' of ' + summary.pairs + ' tensors differ by more than one rounding'
            : count('WITHIN_ONE_ROUNDING') > 0 ? 'No tensor differs by more than one rounding' : 'All tensors in both are equal'
        : count('SAME_VALUES') > 0 ? 'The same numbers in different forms' : 'The models are identical';
    byId('verdict').textContent = verdict;
    byId('line').textContent = complete ? 'Every weight of each model is in the other.'
        : 'Some weights could not be compared; they are listed below.';
    table(byId('model-table'), [[''], ['Model'], ['Format']],
        [['A', [data.a, 'name'], data.formatA], ['B', [data.b, 'name'], data.formatB]]);
    facts([
        ['Tensors compared', String(summary.pairs), share(summary.matched) + ' of A'],
        ['SQNR, all together', decibels(summary.sqnrDb), 'worst tensor ' + decibels(summary.sqnrDbMin)],
        ['Cosine, all together', fixed(summary.cosine, 6), 'worst tensor ' + fixed(summary.cosineMin, 6)],
        ['Elements that differ', share(summary.elements === 0 ? 0 : summary.differing / summary.elements),
            'of ' + summary.elements.toLocaleString('en')],
        ['Largest error', short(summary.maxUlpError), 'units in the last place'],
        ['Rounded twice', String(summary.roundedTwice), 'tensors'],
    ]);
}

function worst() {
    const shown = data.tensors.filter(t => known(t.sqnrDb)).sort((a, b) => a.sqnrDb - b.sqnrDb).slice(0, WORST);
    if (shown.length === 0) return hide('worst');
    decibelBars(byId('worst-chart'),
        'Bar chart of the SQNR of the ' + shown.length + ' worst tensors; the numbers are in the table below',
        shown.map(t => ({
            name: t.a.includes('::') ? t.b : t.a, // exporters number what has no name
            title: nameOf(t),
            value: t.sqnrDb,
            text: fixed(t.sqnrDb, 1) + ' dB, ' + WORDS[t.closeness],
            warn: t.closeness === 'BEYOND',
        })));
}

function errors() {
    const counts = ERROR_BINS.map((_, i) => data.tensors.reduce((sum, t) => sum + t.errors[i], 0));
    const all = counts.reduce((a, b) => a + b, 0);
    if (all === 0) return hide('errors');
    const box = byId('error-chart');
    box.style.height = '220px';
    draw(box, 'Histogram of errors: ' + ERROR_BINS.map((b, i) => b + ' units ' + share(counts[i] / all)).join(', '), {
        type: 'bar',
        data: {
            labels: ERROR_BINS,
            datasets: [{
                data: counts.map(n => 100 * n / all),
                backgroundColor: counts.map((_, i) => i < FIRST_BIN_BEYOND ? colour('--fill') : colour('--warn')),
                borderRadius: 2,
            }],
        },
        options: {
            animation: false,
            maintainAspectRatio: false,
            scales: {
                x: axis('units in the last place of the coarser grid', {grid: {display: false}}),
                y: axis('% of differing elements', {beginAtZero: true}),
            },
            plugins: {
                legend: {display: false},
                tooltip: {callbacks: {label: item => share(counts[item.dataIndex] / all) + ', ' + counts[item.dataIndex] + ' elements'}},
            },
        },
    });
}

function rounding() {
    const found = data.tensors.filter(t => t.rounding.evidence !== '');
    if (found.length === 0) return hide('rounding');
    const words = {ROUNDED_AGAIN: 'rounded again', THROUGH_ANOTHER_GRID: 'through another grid', UNEXPLAINED: 'unexplained'};
    table(byId('rounding-table'), [['Tensor'], ['Finding'], ['Beyond ½ unit', true], ['Evidence']],
        found.map(t => [[pair(t), 'path'], [words[t.rounding.verdict], 'kept'], share(t.rounding.beyondHalf),
            [t.rounding.evidence, 'name']]));
}

/** Both names of a pair, one below the other where they differ. */
function pair(t) {
    const names = breakable(t.a);
    if (t.a !== t.b) names.append(breakable('= ' + t.b, 'span', 'other'));
    if (t.transposed) names.append(element('span', 'transposed', 'other'));
    return names;
}

let shownRows = ROWS_AT_A_TIME;

function tensors() {
    const kinds = byId('tensor-kind');
    Object.keys(WORDS).filter(k => count(k) > 0).forEach(k => {
        const option = element('option', WORDS[k] + ' (' + count(k) + ')');
        option.value = k;
        kinds.append(option);
    });
    const again = () => { shownRows = ROWS_AT_A_TIME; listTensors(); };
    byId('tensor-filter').oninput = again;
    kinds.onchange = again;
    byId('tensor-more').onclick = () => { shownRows += ROWS_AT_A_TIME; listTensors(); };
    listTensors();
}

function listTensors() {
    const wanted = byId('tensor-filter').value.toLowerCase();
    const kind = byId('tensor-kind').value;
    const found = data.tensors.filter(t => (kind === 'all' || t.closeness === kind)
        && (t.a + ' ' + t.b + ' ' + t.schemeA + ' ' + t.schemeB).toLowerCase().includes(wanted));
    byId('tensor-count').textContent = found.length + ' of ' + data.tensors.length;
    offerMore('tensor-more', found.length - shownRows, ROWS_AT_A_TIME);
    const columns = [
        [['Tensor'], t => [pair(t), 'path']],
        [['Verdict'], t => [WORDS[t.closeness], t.closeness === 'BEYOND' ? 'kept' : 'converted']],
        [['SQNR, dB', true], t => decibels(t.sqnrDb, '')],
        [['Cosine', true], t => fixed(t.cosine, 6)],
        [['Max abs', true], t => short(t.maxAbsError)],
        [['Max ulp', true], t => short(t.maxUlpError)],
        [['Differ', true], t => share(t.elements === 0 ? 0 : t.differing / t.elements)],
        [['Amax', true], t => share(t.relativeAmaxDifference)],
        [['Scales changed'], t => scales(t.scales), t => t.scales],
        [['A'], t => [t.schemeA, 'scheme']],
        [['B'], t => [t.schemeB, 'scheme']],
        [['Notes'], t => [t.notes.join('; '), 'name'], t => t.notes.length > 0],
    ].filter(([, , has]) => !has || data.tensors.some(has)); // no column without anything in it
    table(byId('tensor-table'), columns.map(([title]) => title),
        found.slice(0, shownRows).map(t => columns.map(([, cell]) => cell(t))));
}

function scales(s) {
    if (!s) return '';
    return s.changed === 0 ? 'none' : s.changed + ' of ' + s.count + ', up to ×' + short(s.largestRatio);
}

function others() {
    const rows = data.uncomparable.map(u => [[u.a === u.b || !u.b ? u.a : !u.a ? u.b : u.a + ' = ' + u.b, 'name'], [u.reason, 'name']])
        .concat(data.onlyA.map(n => [[n, 'name'], 'only in A']), data.onlyB.map(n => [[n, 'name'], 'only in B']));
    if (rows.length === 0) return hide('others');
    table(byId('other-table'), [['Tensor'], ['Why']], rows);
}

head();
worst();
errors();
rounding();
tensors();
others();
notes();

onColours(() => {
    if (byId('worst')) worst();
    if (byId('errors')) errors();
});
