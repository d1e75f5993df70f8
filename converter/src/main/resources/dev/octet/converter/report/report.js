const ACTIVATIONS_AT_A_TIME = 12;

function head() {
    const s = data.summary;
    byId('model').textContent = s.model;
    byId('verdict').textContent = verdict();
    const said = [s.recipe && 'recipe ' + s.recipe, s.rounding && 'rounding ' + s.rounding, s.calibrator && 'calibrator ' + s.calibrator,
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

/** More than 6 dB (half the accuracy) below the mean stands out. */
function outliers() {
    const measured = data.layers.filter(l => known(l.sqnrDb) && l.kind !== 'Embedding');
    const mean = measured.reduce((sum, l) => sum + l.sqnrDb, 0) / Math.max(1, measured.length);
    return measured.filter(l => l.sqnrDb < mean - 6);
}

/** The first thing to know: how good it is, or what to do about it. */
function verdict() {
    const s = data.summary;
    const worst = data.layers.filter(l => known(l.sqnrDb)).sort((a, b) => a.sqnrDb - b.sqnrDb)[0];
    const measured = data.layerMeasure.startsWith('at the output');
    const start = s.quality ? 'Its outputs have cosine ' + fixed(s.quality.cosineMean, 5) + ' with the original\'s, '
            + fixed(s.quality.cosineMin, 5) + ' at worst. '
        : measured ? '' : 'No output was measured: only the weights are known. ';
    if (!worst) return start + 'Nothing was converted with an error.';
    const out = outliers();
    if (out.length === 0) {
        return start + 'No layer stands out: ' + (measured ? 'each is' : 'each weight is') + ' above '
            + fixed(Math.floor(worst.sqnrDb * 10) / 10, 1) + ' dB.';
    }
    return start + (out.length === 1 ? 'One layer stands out' : out.length + ' layers stand out') + ', the worst '
        + worst.name + ' with ' + fixed(worst.sqnrDb, 1) + ' dB; --keep leaves layers in floats.';
}

function trained() {
    if (!data.trained) return hide('trained');
    const row = (name, q) => [name, fixed(q.cosineMean, 5), fixed(q.cosineMin, 5), fixed(q.spearman, 5), fixed(q.sqnrDb, 1)];
    table(byId('trained-table'), [['Model'], ['Cosine, mean', true], ['smallest', true], ['Spearman', true], ['SQNR, dB', true]],
        [row('rounded', data.trained.before), row('trained', data.trained.quality)]);
    drawLoss();
}

function drawLoss() {
    const curves = [['loss', data.trained.loss, '--fill'], ['loss on evaluation data', data.trained.evalLoss, '--warn']]
        .filter(c => c[1].length > 1);
    if (curves.length === 0) return byId('loss-chart') && hide('loss-chart');
    const box = byId('loss-chart');
    box.style.height = '220px';
    draw(box, 'Curves of the loss over the steps of training', {
        type: 'line',
        data: {
            datasets: curves.map(([label, points, name]) => ({
                label,
                data: points.map(p => ({x: p.step, y: p.value})),
                borderColor: colour(name),
                backgroundColor: colour(name),
                borderWidth: 2,
                pointRadius: 0,
            })),
        },
        options: {
            animation: false,
            maintainAspectRatio: false,
            parsing: false,
            scales: {x: axis('step', {type: 'linear'}), y: axis('loss')},
            plugins: {legend: {position: 'bottom', labels: {color: colour('--soft'), boxWidth: 12}}},
        },
    });
}

function kinds(decisions) {
    const counts = new Map();
    decisions.forEach(d => counts.set(d.kind, (counts.get(d.kind) || 0) + 1));
    // no number of a norm is FP8, only what is made of its output
    return [...counts].map(([kind, count]) => count + ' ' + kind + (kind.endsWith('Norm') ? ' handing on FP8' : kind === 'Embedding' ? ' in INT8' : ' in FP8')).join(', ');
}

/** Draws the chart of layers anew. */
let redrawLayers = () => {};

function layers() {
    const predicted = data.layers.some(l => known(l.predictedDb));
    const measured = data.layers.some(l => known(l.aloneDb));
    const prefix = commonPrefix(data.layers.map(l => l.name));
    const suffix = commonSuffix(data.layers.map(l => l.name.slice(prefix.length)));
    const warned = new Set(outliers().map(l => l.name));
    redrawLayers = layerSection({
        measure: data.layerMeasure,
        layers: data.layers.map(l => ({
            name: l.name.slice(prefix.length, l.name.length - suffix.length),
            title: l.name,
            sqnrDb: l.sqnrDb,
            warn: warned.has(l.name),
        })),
        columns: [['Layer'], ['Kind'], ['SQNR, dB', true],
            ...(predicted ? [['Predicted alone, dB', true]] : []), ...(measured ? [['Measured alone', true]] : []), ['Weight scale, min', true], ['max', true], ['Input clip', true],
            ['Saturated', true]],
        rows: data.layers.map(l => [[l.name, 'name'], l.kind, fixed(l.sqnrDb, 1), ...(predicted ? [fixed(l.predictedDb, 1)] : []),
            ...(measured ? [fixed(l.aloneDb, 1)] : []), short(l.minScale), short(l.maxScale),
            short(l.inputClip), share(l.saturatedShare)]),
        worstFirst: data.layers.filter(l => known(l.sqnrDb)).length > LAYERS_AT_FIRST,
    });
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

head();
trained();
sizes(data.parts);
layers();
activations();
decisions();
notes();
runFacts(data.run);

onColours(() => {
    if (byId('size')) sizes(data.parts);
    if (data.trained) drawLoss();
    redrawLayers();
    if (byId('activations')) listActivations();
});
