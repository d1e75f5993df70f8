const LAYERS_AT_FIRST = 60;
const ACTIVATIONS_AT_A_TIME = 12;

const bytes = n => {
    if (!known(n) || n <= 0) return '–';
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let unit = 0;
    while (n >= 999.95 && unit + 1 < units.length) { n /= 1000; unit++; }
    return (unit === 0 ? n : n.toFixed(1)) + ' ' + units[unit];
};

/** What all names begin with, up to a separator: it says nothing and takes room. */
function commonPrefix(names) {
    if (names.length < 2) return '';
    let prefix = names[0];
    for (const name of names) {
        while (!name.startsWith(prefix)) prefix = prefix.slice(0, -1);
    }
    return prefix.slice(0, Math.max(prefix.lastIndexOf('/'), prefix.lastIndexOf('.')) + 1);
}

/** What all names end with, from a separator on. */
function commonSuffix(names) {
    if (names.length < 2) return '';
    let suffix = names[0];
    for (const name of names) {
        while (!name.endsWith(suffix)) suffix = suffix.slice(1);
    }
    const starts = [suffix.indexOf('/'), suffix.indexOf('.')].filter(i => i >= 0);
    return starts.length === 0 ? '' : suffix.slice(Math.min(...starts));
}

function head() {
    const s = data.summary;
    byId('model').textContent = s.model;
    const said = [s.recipe && 'recipe ' + s.recipe, s.calibrator && 'calibrator ' + s.calibrator,
        s.target && 'for ' + s.target];
    byId('line').textContent = said.filter(Boolean).join(' · ');
    const all = [];
    if (s.quality) {
        const on = 'on ' + s.quality.samples + ' samples' + (s.quality.data ? ' of ' + s.quality.data : '');
        all.push(['Cosine, mean', fixed(s.quality.cosineMean, 5), 'smallest ' + fixed(s.quality.cosineMin, 5)]);
        all.push(['Spearman', fixed(s.quality.spearman, 5), 'of similarities, ' + on]);
        all.push(['Output SQNR', known(s.quality.sqnrDb) ? fixed(s.quality.sqnrDb, 1) + ' dB' : '–', '']);
    }
    const smaller = s.convertedBytes > 0 && s.originalBytes > 0
        ? (100 - 100 * s.convertedBytes / s.originalBytes).toFixed(0) + ' % smaller than ' + bytes(s.originalBytes) : '';
    all.push(['File size', bytes(s.convertedBytes), smaller]);
    const converted = data.decisions.filter(d => d.converted).length;
    all.push(['Layers converted', converted + ' of ' + data.decisions.length,
        kinds(data.decisions.filter(d => d.converted))]);
    if (s.samples > 0) all.push(['Calibrated on', String(s.samples), 'samples' + (s.data ? ' of ' + s.data : '')]);
    facts(all);
}

function kinds(decisions) {
    const counts = new Map();
    decisions.forEach(d => counts.set(d.kind, (counts.get(d.kind) || 0) + 1));
    // no number of a norm is FP8, only what is made of its output
    return [...counts].map(([kind, count]) => count + ' ' + kind + (kind.endsWith('Norm') ? ' handing on FP8' : ' in FP8')).join(', ');
}

let allLayers = false;

function layers() {
    const measured = data.layers.filter(l => known(l.sqnrDb));
    if (data.layers.length === 0) return hide('layers');
    byId('layer-measure').textContent = data.layerMeasure;
    table(byId('layer-table'),
        [['Layer'], ['Kind'], ['SQNR, dB', true], ['Weight scale, min', true], ['max', true], ['Input clip', true],
            ['Saturated', true]],
        data.layers.map(l => [[l.name, 'name'], l.kind, fixed(l.sqnrDb, 1), short(l.minScale), short(l.maxScale),
            short(l.inputClip), share(l.saturatedShare)]));
    const more = byId('layer-more');
    more.hidden = measured.length <= LAYERS_AT_FIRST;
    more.onclick = () => { allLayers = !allLayers; drawLayers(measured); };
    byId('layer-order').onchange = () => drawLayers(measured);
    if (measured.length > LAYERS_AT_FIRST) byId('layer-order').value = 'worst';
    drawLayers(measured);
}

function drawLayers(measured) {
    const ordered = byId('layer-order').value === 'worst'
        ? [...measured].sort((a, b) => a.sqnrDb - b.sqnrDb) : measured;
    const shown = allLayers ? ordered : ordered.slice(0, LAYERS_AT_FIRST);
    byId('layer-more').textContent = allLayers ? 'Show ' + LAYERS_AT_FIRST : 'Show all ' + measured.length;
    const prefix = commonPrefix(measured.map(l => l.name));
    const suffix = commonSuffix(measured.map(l => l.name.slice(prefix.length)));
    const mean = measured.reduce((sum, l) => sum + l.sqnrDb, 0) / Math.max(1, measured.length);
    decibelBars(byId('layer-chart'), 'Bar chart of the error of ' + shown.length + ' layers; the numbers are in the table below',
        shown.map(l => ({
            name: l.name.slice(prefix.length, l.name.length - suffix.length),
            title: l.name,
            value: l.sqnrDb,
            text: fixed(l.sqnrDb, 1) + ' dB',
            // more than 6 dB (half the accuracy) under the mean stands out
            warn: l.sqnrDb < mean - 6,
        })));
}

/** The clip as a line through the histogram, in the units of its bins. */
function clipLine(position) {
    return {
        id: 'clip',
        afterDatasetsDraw(chart) {
            const x = chart.scales.x.getPixelForValue(position);
            const {top, bottom} = chart.chartArea;
            const c = chart.ctx;
            c.save();
            c.strokeStyle = colour('--warn');
            c.lineWidth = 2;
            c.beginPath();
            c.moveTo(x, top);
            c.lineTo(x, bottom);
            c.stroke();
            c.restore();
        },
    };
}

function drawActivation(a, box) {
    const first = a.counts.findIndex(n => n > 0);
    if (first < 0) {
        box.replaceChildren(element('p', 'no values', 'hint'));
        return;
    }
    const clipLog2 = Math.log2(a.clip);
    const log2 = bin => a.firstLog2 + bin / a.binsPerOctave;
    let last = a.counts.length - 1;
    while (a.counts[last] === 0) last--;
    const points = [];
    for (let bin = first; bin <= last; bin++) {
        points.push({x: log2(bin + 0.5), y: a.counts[bin] > 0 ? a.counts[bin] : null});
    }
    draw(box, 'Histogram of the magnitudes of ' + a.name, {
        type: 'bar',
        data: {
            datasets: [{
                data: points,
                backgroundColor: colour('--fill'),
                barPercentage: 1,
                categoryPercentage: 1,
            }],
        },
        options: {
            animation: false,
            maintainAspectRatio: false,
            parsing: false,
            scales: {
                x: axis('', {
                    type: 'linear',
                    min: Math.floor(log2(first)),
                    max: Math.ceil(Math.max(log2(last + 1), known(clipLog2) ? clipLog2 : -Infinity)),
                    offset: false,
                    ticks: {color: colour('--soft'), maxTicksLimit: 7, precision: 0, includeBounds: false, callback: v => '2' + superscript(v)},
                    grid: {display: false},
                }),
                y: axis('', {
                    type: 'logarithmic',
                    min: 0.5,
                    ticks: {
                        color: colour('--soft'),
                        callback: v => Number.isInteger(Math.log10(v)) && Math.log10(v) % 2 === 0 ? '10' + superscript(Math.log10(v)) : '',
                    },
                }),
            },
            plugins: {
                legend: {display: false},
                tooltip: {
                    callbacks: {
                        title: items => '|x| about ' + short(2 ** items[0].parsed.x),
                        label: item => item.parsed.y + ' elements',
                    },
                },
            },
        },
        plugins: known(clipLog2) ? [clipLine(clipLog2)] : [],
    });
}

const superscript = n => String(n).replace(/./g, c => ({'-': '⁻', '0': '⁰', '1': '¹', '2': '²', '3': '³', '4': '⁴', '5': '⁵',
    '6': '⁶', '7': '⁷', '8': '⁸', '9': '⁹', '.': '·'})[c] || c);

let shownActivations = ACTIVATIONS_AT_A_TIME;

function activations() {
    if (data.activations.length === 0) return hide('activations');
    byId('activation-filter').oninput = () => { shownActivations = ACTIVATIONS_AT_A_TIME; listActivations(); };
    byId('activation-more').onclick = () => { shownActivations += ACTIVATIONS_AT_A_TIME; listActivations(); };
    listActivations();
}

function listActivations() {
    const grid = byId('activation-grid');
    forget(grid);
    const wanted = byId('activation-filter').value.toLowerCase();
    const found = data.activations.filter(a => a.name.toLowerCase().includes(wanted));
    offerMore('activation-more', found.length - shownActivations, ACTIVATIONS_AT_A_TIME);
    const boxes = found.slice(0, shownActivations).map(a => {
        const figure = element('figure');
        const caption = element('figcaption', a.name);
        caption.append(element('span', 'clip ' + short(a.clip) + ', largest ' + short(a.amax)));
        const box = element('div', undefined, 'chart');
        figure.append(caption, box);
        return {figure, box, a};
    });
    grid.replaceChildren(...boxes.map(b => b.figure));
    boxes.forEach(b => drawActivation(b.a, b.box));
}

function decisions() {
    const list = () => {
        const wanted = byId('decision-filter').value.toLowerCase();
        const kind = byId('decision-kind').value;
        const found = data.decisions.filter(d => (kind === 'all' || d.converted === (kind === 'converted'))
            && (d.node + ' ' + d.kind + ' ' + d.reason).toLowerCase().includes(wanted));
        byId('decision-count').textContent = found.length + ' of ' + data.decisions.length;
        table(byId('decision-table'), [['Node'], ['Kind'], ['Decision'], ['How, or why not']],
            found.map(d => [[d.node, 'name'], d.kind,
                d.converted ? ['converted', 'converted'] : ['kept', 'kept'], [d.reason, 'name']]));
    };
    byId('decision-filter').oninput = list;
    byId('decision-kind').onchange = list;
    list();
}

function run() {
    notes();
    table(byId('timing-table'), [['Step'], ['Seconds', true]], data.timings.map(t => [t.step, fixed(t.seconds, 1)]));
    table(byId('version-table'), [['Software'], ['Version']], data.versions.map(v => [v.name, v.version]));
}

head();
layers();
activations();
decisions();
run();

onColours(() => {
    if (byId('layers')) drawLayers(data.layers.filter(l => known(l.sqnrDb)));
    if (byId('activations')) listActivations();
});
