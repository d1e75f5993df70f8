const result = data.result;
const loss = l => result.loss === 'kl' ? l.kl : l.cosine;
const unit = result.loss === 'kl' ? 'nats per token' : '1 − cosine';
const headed = known(result.perplexity);
const percent = x => known(x) ? (x >= 0 ? '+' : '−') + Math.abs(100 * x).toFixed(3) + ' %' : fixed(x, 1);
const ticks = () => ({color: colour('--soft'), callback: value => short(value)});
let shown = result.formats[0];
let all = false;

function head() {
    const worst = [...result.formats].sort((a, b) => loss(b.all) - loss(a.all))[0];
    const first = worst.layers[0];
    byId('verdict').replaceChildren(breakable(first.weight), ' loses most: ' + short(loss(first.alone)) + ' of '
        + short(loss(worst.all)) + ' in ' + worst.name);
    byId('line').textContent = result.samples + ' samples of ' + result.data;
    const all = result.formats.map(f => [f.name + ', all ' + f.layers.length + ' Linears', short(loss(f.all)),
        unit + ', ' + fixed(f.bits, 2) + ' bits' + (headed ? ', perplexity ' + percent(f.all.perplexityChange) : '')]);
    all.unshift(['Model', bytes(result.modelBytes), headed ? 'perplexity ' + short(result.perplexity) : '']);
    facts(all);
}

function curve() {
    const points = result.curve.filter(p => known(p.loss) && p.loss > 0); // the axis is logarithmic
    if (points.length < 2) return hide('curve');
    byId('curve-chart').style.height = '280px';
    draw(byId('curve-chart'), 'Curve of the predicted loss over the size of the model, from '
            + bytes(points[0].bytes) + ' to ' + bytes(points[points.length - 1].bytes), {
        type: 'line',
        data: {
            datasets: [{
                data: points.map(p => ({x: p.bytes / 1e6, y: p.loss})),
                borderColor: colour('--accent'),
                backgroundColor: colour('--accent'),
                pointRadius: 2,
                borderWidth: 1.5,
            }],
        },
        options: {
            animation: false,
            maintainAspectRatio: false,
            parsing: false,
            scales: {x: axis('MB', {type: 'linear'}), y: axis('predicted loss, ' + unit, {type: 'logarithmic', ticks: ticks()})},
            plugins: {
                legend: {display: false},
                tooltip: {
                    callbacks: {
                        title: items => bytes(points[items[0].dataIndex].bytes),
                        label: item => {
                            const p = points[item.dataIndex];
                            return short(p.loss) + ', ' + fixed(p.bits, 2) + ' bits, ' + p.kept + ' kept';
                        },
                    },
                },
            },
        },
    });
}

/** What keeping a Linear saves: the loss of all less that of all others. */
const saved = l => loss(shown.all) - loss(l.kept);

function bars() {
    const layers = all ? shown.layers : shown.layers.slice(0, LAYERS_AT_FIRST);
    const box = byId('layer-chart');
    const narrow = box.clientWidth < 560;
    const names = shown.layers.map(l => l.weight);
    const prefix = commonPrefix(names);
    const suffix = commonSuffix(names.map(n => n.slice(prefix.length)));
    box.style.height = (layers.length * (narrow ? 22 : 26) + 90) + 'px';
    const set = (label, value, name) => ({
        label: label,
        data: layers.map(value),
        backgroundColor: colour(name),
        borderRadius: 2,
        barPercentage: 0.85,
        categoryPercentage: 0.85,
    });
    draw(box, 'Bar chart of the losses of ' + layers.length + ' Linears; the numbers are in the table below', {
        type: 'bar',
        data: {
            labels: layers.map(l => elided(l.weight.slice(prefix.length, l.weight.length - suffix.length), narrow ? 26 : 56)),
            datasets: [
                set('lost when only it is quantised', l => loss(l.alone), '--fill'),
                set('saved when only it is kept', saved, '--accent'),
            ],
        },
        options: {
            indexAxis: 'y',
            animation: false,
            maintainAspectRatio: false,
            scales: {
                x: axis(unit, {ticks: ticks()}),
                y: axis('', {ticks: {color: colour('--soft'), autoSkip: false, font: {size: narrow ? 9 : 11}}, grid: {display: false}}),
            },
            plugins: {
                legend: {position: 'top', align: 'start', labels: {color: colour('--soft'), boxWidth: 12}},
                tooltip: {
                    callbacks: {
                        title: items => layers[items[0].dataIndex].weight,
                        label: item => item.dataset.label + ': ' + short(item.parsed.x),
                    },
                },
            },
        },
    });
    byId('layer-more').hidden = shown.layers.length <= LAYERS_AT_FIRST;
    byId('layer-more').textContent = all ? 'Show ' + LAYERS_AT_FIRST : 'Show all ' + shown.layers.length;
}

function ranking() {
    byId('measure').textContent = (result.output
        ? 'Kullback-Leibler divergence of ' + result.output + ' from the model itself, in nats per token. '
        : 'One minus the cosine between the outputs and those of the model itself. ')
        + 'Worst first; ± is the standard error over the samples.';
    bars();
    const columns = [['Weight'], ['alone', true], ['±', true], ['all others', true], ['saved', true]];
    if (headed) columns.push(['perplexity, alone', true]);
    columns.push(['bits', true], ['']);
    table(byId('layer-table'), columns, shown.layers.map(l => {
        const row = [[breakable(l.weight), 'name'], short(loss(l.alone)), short(l.alone.standardError), short(loss(l.kept)), short(saved(l))];
        if (headed) row.push(percent(l.alone.perplexityChange));
        return row.concat([fixed(l.bits, 2), l.refusal ? [l.refusal, 'kept'] : '']);
    }));
    exclusion();
}

function exclusion() {
    const words = shown.exclusion;
    byId('exclusion').hidden = words.weights.length === 0;
    byId('exclusion-line').textContent = words.weights.length + ' of ' + shown.layers.length
        + ' Linears, with those that engines fuse with them, lose half of what all lose alone in ' + shown.name + '.';
    const list = names => {
        const lines = element('div');
        names.forEach(n => lines.append(element('div', n)));
        return [lines, 'name code'];
    };
    table(byId('exclusion-table'), [['Where'], ['What']], [
        ['octet quantize', words.keep.map(k => "--keep '" + k + "'")],
        ['nodes_to_exclude', words.nodesToExclude],
        ['ignore', words.ignore],
        ['modules_to_not_convert', words.modulesToNotConvert],
        ['exclude_modules', words.excludeModules],
    ].filter(([, names]) => names.length > 0).map(([where, names]) => [where, list(names)]));
}

function choose() {
    const select = byId('format');
    select.replaceChildren(...result.formats.map(f => {
        const option = element('option', f.name);
        option.value = f.name;
        return option;
    }));
    select.onchange = () => {
        shown = result.formats.find(f => f.name === select.value);
        ranking();
    };
    byId('layer-more').onclick = () => { all = !all; bars(); };
}

head();
choose();
curve();
ranking();
noteList(result.notes);
runFacts(data.run);

onColours(() => { curve(); bars(); });
