const data = JSON.parse(document.getElementById('data').textContent);
const charts = new Set();

/** Layers in a chart before all are asked for. */
const LAYERS_AT_FIRST = 60;

// Jackson writes numbers that JSON lacks as text
const known = x => typeof x === 'number' && Number.isFinite(x);
const fixed = (x, digits) => known(x) ? x.toFixed(digits) : x === 'Infinity' ? '∞' : x === '-Infinity' ? '−∞' : '–';
const short = x => !known(x) ? fixed(x, 1) : x === 0 ? '0' : Math.abs(x) >= 0.001 && Math.abs(x) < 1e5
    ? String(Number(x.toPrecision(4))) : x.toExponential(2);
const share = x => !known(x) ? fixed(x, 1) : x === 0 ? '0 %' : x < 0.0001 ? '< 0.01 %' : (100 * x).toFixed(2) + ' %';
const decibels = (x, unit = ' dB') => x === 'Infinity' ? 'exact' : known(x) ? x.toFixed(1) + unit : fixed(x, 1);
const number = x => !known(x) ? '–' : x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(2) : x.toPrecision(4);
const counted = (n, word) => n.toLocaleString('en') + ' ' + word + (n === 1 ? '' : 's');
const byId = id => document.getElementById(id);
const element = (tag, text, className) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
};
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const hide = id => byId(id).remove();

/** The boxes at the top; a fact is [label, value, more]. */
function facts(all) {
    byId('summary').replaceChildren(...all.map(([label, value, more]) => {
        const fact = element('div', undefined, 'fact');
        fact.append(element('div', label, 'label'), element('div', value, 'value'));
        if (more) fact.append(element('div', more, 'more'));
        return fact;
    }));
}

function noteList(notes) {
    if (notes.length === 0) hide('notes');
    else byId('note-list').replaceChildren(...notes.map(n => element('li', n)));
}

function notes() {
    noteList(data.notes);
}

/** A name that breaks behind its dots and slashes, not within words. */
function breakable(name, tag, className) {
    const e = element(tag || 'span', undefined, className);
    name.split(/(?<=[./])(?=[^./])/).forEach((part, i) => {
        if (i > 0) e.append(element('wbr'));
        e.append(part);
    });
    return e;
}

/** Where an axis of decibels begins: the bars are ratios, whose zero means nothing, and those of one model lie close together. */
const decibelFloor = values => values.length === 0 ? 0 : 5 * Math.floor((Math.min(...values) - 1) / 5);

/** Fills a table; a column is [title, isNumber]; a cell is text, a node, or [text or node, class]. */
function table(target, columns, rows) {
    const head = element('tr');
    columns.forEach(([title, number]) => {
        const cell = element('th', title, number ? 'number' : '');
        cell.scope = 'col';
        head.append(cell);
    });
    const body = element('tbody');
    rows.forEach(row => {
        const line = element('tr');
        row.forEach((cell, i) => {
            const [text, className] = Array.isArray(cell) ? cell : [cell, ''];
            const td = element('td', text instanceof Node ? undefined : text, className || (columns[i][1] ? 'number' : ''));
            if (text instanceof Node) td.append(text);
            line.append(td);
        });
        body.append(line);
    });
    const thead = element('thead');
    thead.append(head);
    target.replaceChildren(thead, body);
}

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

/** The name without its middle: beginning and end are what tells names apart. */
function elided(name, length) {
    const tail = Math.ceil(length * 0.7);
    return name.length <= length ? name : name.slice(0, length - tail - 1) + '…' + name.slice(-tail);
}

/** A button for more of a long list. */
function offerMore(id, left, atATime) {
    byId(id).hidden = left <= 0;
    byId(id).textContent = 'Show ' + Math.min(left, atATime) + ' more (' + left + ' left)';
}

/** Gives up the charts in a box. */
function forget(box) {
    charts.forEach(chart => {
        if (box.contains(chart.canvas)) { charts.delete(chart); chart.destroy(); }
    });
}

/** Puts a chart into a box, in place of what was there. */
function draw(box, label, config) {
    forget(box);
    const canvas = element('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', label);
    box.replaceChildren(canvas);
    charts.add(new Chart(canvas, config));
}

function axis(title, more) {
    return Object.assign({
        title: {display: Boolean(title), text: title, color: colour('--soft')},
        ticks: {color: colour('--soft')},
        grid: {color: colour('--grid')},
        border: {color: colour('--line')},
    }, more);
}

/** Bars in decibels, one below the other; a row is {name, title, value, text, warn}. */
function decibelBars(box, label, rows) {
    const narrow = box.clientWidth < 560;
    box.style.height = (rows.length * (narrow ? 15 : 18) + 60) + 'px';
    draw(box, label, {
        type: 'bar',
        data: {
            labels: rows.map(r => elided(r.name, narrow ? 26 : 56)),
            datasets: [{
                data: rows.map(r => r.value),
                backgroundColor: rows.map(r => colour(r.warn ? '--warn' : '--fill')),
                borderRadius: 2,
                barPercentage: 0.8,
                categoryPercentage: 0.9,
            }],
        },
        options: {
            indexAxis: 'y',
            animation: false,
            maintainAspectRatio: false,
            scales: {
                x: axis('dB', {min: decibelFloor(rows.map(r => r.value))}),
                y: axis('', {ticks: {color: colour('--soft'), autoSkip: false, font: {size: narrow ? 9 : 11}}, grid: {display: false}}),
            },
            plugins: {
                legend: {display: false},
                tooltip: {
                    callbacks: {
                        title: items => rows[items[0].dataIndex].title,
                        label: item => rows[item.dataIndex].text,
                    },
                },
            },
        },
    });
}

/**
 * The section of layers: bars of decibels in the order asked for, and a table. A layer is {name, title, sqnrDb, warn}; columns and rows are those of the
 * table. Gives a function that draws the bars again.
 */
function layerSection({measure, layers, columns, rows, worstFirst}) {
    const measured = layers.filter(l => known(l.sqnrDb));
    if (layers.length === 0) {
        hide('layers');
        return () => {};
    }
    let all = false;
    const order = byId('layer-order');
    const more = byId('layer-more');
    const drawBars = () => {
        const ordered = order.value === 'worst' ? [...measured].sort((a, b) => a.sqnrDb - b.sqnrDb) : measured;
        const shown = all ? ordered : ordered.slice(0, LAYERS_AT_FIRST);
        more.textContent = all ? 'Show ' + LAYERS_AT_FIRST : 'Show all ' + measured.length;
        decibelBars(byId('layer-chart'), 'Bar chart of the error of ' + shown.length + ' layers; the numbers are in the table below',
            shown.map(l => ({name: l.name, title: l.title, value: l.sqnrDb, text: decibels(l.sqnrDb), warn: l.warn})));
    };
    byId('layer-measure').textContent = measure;
    table(byId('layer-table'), columns, rows);
    more.hidden = measured.length <= LAYERS_AT_FIRST;
    more.onclick = () => { all = !all; drawBars(); };
    order.onchange = drawBars;
    if (worstFirst) order.value = 'worst';
    if (measured.length === 0) {
        order.closest('.tools').remove();
        hide('layer-chart');
        return () => {};
    }
    drawBars();
    return drawBars;
}

const seriesIsEmpty = s => !s || !s.min.some(known);
const highOf = s => s.max.length > 0 ? s.max : s.min;

/** Points of a curve; a bin has its smallest and its largest value. */
function points(s) {
    if (!s) return [];
    const high = highOf(s);
    const all = [];
    let before = -Infinity;
    s.steps.forEach((first, i) => {
        const middle = (s.min[i] + high[i]) / 2;
        // in the direction that the curve goes, so that a smooth one has no teeth
        const falls = middle < before;
        const at = share => first + share * (s.width - 1);
        if (high[i] === s.min[i]) all.push({x: at(0.5), y: high[i]});
        else all.push({x: at(0.25), y: falls ? high[i] : s.min[i]}, {x: at(0.75), y: falls ? s.min[i] : high[i]});
        before = middle;
    });
    return all;
}

/** One value for each bin. */
const middle = s => !s ? [] : s.steps.map((first, i) => ({x: first + (s.width - 1) / 2, y: s.min[i]}));

/**
 * Lines over steps.
 *
 * @param first step at the left end; the chart's choice without
 * @param last step at the right end
 * @param legend whether there is one
 * @param more plugins, for example
 */
function lineChart(box, label, {datasets, y, first, last, legend, ...more}) {
    draw(box, label, Object.assign({
        type: 'line',
        data: {datasets},
        options: {
            animation: false,
            maintainAspectRatio: false,
            parsing: false,
            normalized: true,
            interaction: {mode: 'nearest', axis: 'x', intersect: false},
            scales: {
                x: axis('step', {type: 'linear', min: first, max: last, ticks: {color: colour('--soft'), maxTicksLimit: 10, precision: 0,
                    callback: v => v.toLocaleString('en')}}),
                y,
            },
            plugins: {
                legend: {display: Boolean(legend), position: 'bottom', labels: {color: colour('--soft'), boxWidth: 12}},
                tooltip: {
                    filter: item => !item.dataset.silent,
                    callbacks: {
                        title: items => items.length === 0 ? '' : 'step ' + Math.round(items[0].parsed.x).toLocaleString('en'),
                        label: item => item.dataset.label + ': ' + (item.dataset.asShare ? share(item.parsed.y) : number(item.parsed.y)),
                    },
                },
            },
        },
    }, more));
}

/** A line through points; where one is not a number, it breaks. */
function line(label, points, stroke, more) {
    const finite = points.filter(p => known(p.y));
    return Object.assign({
        label,
        data: points.map(p => ({x: p.x, y: known(p.y) ? p.y : NaN})),
        borderColor: stroke,
        backgroundColor: stroke,
        borderWidth: 1.5,
        pointRadius: finite.length === 1 ? 3 : 0,
        pointHitRadius: 6,
        clip: 6,
    }, more);
}

const bytes = n => {
    if (!known(n) || n < 0) return '–';
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let unit = 0;
    while (n >= 999.95 && unit + 1 < units.length) { n /= 1000; unit++; }
    return (unit === 0 ? n : n.toFixed(1)) + ' ' + units[unit];
};

/** Command, date, digests, versions and times of the run that a page is about. */
function runFacts(run) {
    if (run.command) byId('run-command').replaceChildren(element('code', run.command));
    else hide('run-command');
    if (run.date) byId('run-date').textContent = run.date;
    else hide('run-date');
    table(byId('timing-table'), [['Step'], ['Seconds', true]], run.timings.map(t => [t.step, fixed(t.seconds, 1)]));
    table(byId('version-table'), [['Software'], ['Version']], run.versions.map(v => [v.name, [v.version, 'name']]));
    if (run.digests.length === 0) hide('digest-table');
    else table(byId('digest-table'), [['SHA-256 of'], ['']], run.digests.map(d => [d.of, [d.sha256, 'name code']]));
}

/** Two stacked bars, before and after; a part is {name, original, converted} in bytes. */
function sizes(parts) {
    if (parts.length === 0) return hide('size');
    const total = key => parts.reduce((sum, p) => sum + p[key], 0);
    const colours = ['--fill', '--accent', '--warn', '--soft', '--good', '--line'];
    const box = byId('size-chart');
    box.style.height = '150px';
    draw(box, 'Stacked bars of the bytes of each part before and after; the numbers are in the table below', {
        type: 'bar',
        data: {
            labels: ['original', 'converted'],
            datasets: parts.map((p, i) => ({
                label: p.name,
                data: [p.original / 1e6, p.converted / 1e6],
                backgroundColor: colour(colours[i % colours.length]),
            })),
        },
        options: {
            indexAxis: 'y',
            animation: false,
            maintainAspectRatio: false,
            scales: {x: axis('MB', {stacked: true}), y: axis('', {stacked: true, grid: {display: false}})},
            plugins: {
                legend: {position: 'bottom', labels: {color: colour('--soft'), boxWidth: 12}},
                tooltip: {callbacks: {label: item => item.dataset.label + ': ' + bytes(item.parsed.x * 1e6)}},
            },
        },
    });
    const part = (n, of) => of > 0 ? bytes(n) + ' (' + (100 * n / of).toFixed(0) + ' %)' : bytes(n);
    table(byId('size-table'), [['Part'], ['Original', true], ['Converted', true]],
        parts.map(p => [p.name, part(p.original, total('original')), part(p.converted, total('converted'))])
            .concat([['all', bytes(total('original')), bytes(total('converted'))]]));
}

/** Draws again when the colours change: those of a canvas do not follow the style sheet by themselves. */
function onColours(again) {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
}
