const EVENTS_AT_A_TIME = 200;
const ROWS_AT_FIRST = 60;
const runs = data.runs;
const several = runs.length > 1;
const KINDS = {
    SESSION: ['session', '--soft'],
    CHECKPOINT: ['checkpoint', '--soft'],
    NOT_FINITE: ['not finite', '--warn'],
    SKIPPED: ['skipped step', '--warn'],
    LOSS_SCALE: ['loss scale', '--accent'],
    FP8: ['FP8 warning', '--warn'],
    GUARD: ['guard', '--run3'],
};
/** Later ones are drawn above. */
const ORDER = Object.keys(KINDS);
const runColour = i => colour('--run' + (i % 6 + 1));
const lastOf = s => seriesIsEmpty(s) ? undefined : s.min.filter(known).at(-1);
const leastOf = s => seriesIsEmpty(s) ? undefined : s.min.filter(known).reduce((a, b) => Math.min(a, b));
const state = run => ({RUNNING: 'running', COMPLETE: 'complete', STOPPED: 'stopped'})[run.state];

/** The middle value of a curve, which slow steps at its start do not change. */
function median(s) {
    if (seriesIsEmpty(s)) return undefined;
    const sorted = s.min.filter(known).sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
}

function step(run) {
    return 'step ' + run.step.toLocaleString('en') + (run.steps > 0 ? ' of ' + run.steps.toLocaleString('en') : '');
}

function said(run) {
    if (run.step === 0) return 'no step yet';
    const loss = lastOf(run.smooth);
    return step(run) + ', ' + state(run) + (known(loss) ? ', loss ' + number(loss) : ', no finite loss');
}

function head() {
    if (several) {
        byId('verdict').textContent = runs.map(r => r.name).join(', ');
        byId('line').textContent = runs.map(r => r.name + ': ' + said(r)).join(' · ');
    } else {
        const run = runs[0];
        byId('verdict').textContent = run.name + ': ' + said(run);
        byId('line').textContent = [fileName(run.model), run.precision, run.device, run.octet && 'Octet ' + run.octet,
            run.started && 'started ' + run.started].filter(Boolean).join(' · ');
    }
    if (data.refreshSeconds > 0) byId('line').append(' · the page loads itself again every ' + counted(data.refreshSeconds, 'second'));
}

function summary() {
    if (several) return hide('summary');
    const run = runs[0];
    const all = [['Steps', run.step.toLocaleString('en'), run.steps > 0 ? 'of ' + run.steps.toLocaleString('en') + ', ' + state(run) : state(run)]];
    const smooth = lastOf(run.smooth);
    all.push(['Loss', number(smooth), 'mean of about the last ' + counted(run.smoothSpan, 'step') + '; last step ' + number(run.lastLoss)]);
    const evaluated = run.evaluations.eval_loss;
    if (!seriesIsEmpty(evaluated)) {
        const best = leastOf(evaluated);
        all.push(['Evaluation', number(lastOf(evaluated)), 'best ' + number(best) + ' at step '
            + evaluated.steps[evaluated.min.indexOf(best)].toLocaleString('en')]);
    }
    if (!seriesIsEmpty(run.evaluations.eval_perplexity)) {
        all.push(['Perplexity', number(lastOf(run.evaluations.eval_perplexity)), 'of the last evaluation']);
    }
    const speed = median(run.curves.speed);
    if (known(speed)) all.push([run.speedUnit[0].toUpperCase() + run.speedUnit.slice(1) + ' a second', Math.round(speed).toLocaleString('en'), 'median']);
    if (!seriesIsEmpty(run.curves.fp8_clipped)) {
        all.push(['FP8 clipped', share(lastOf(run.curves.fp8_clipped)), 'underflowed ' + share(lastOf(run.curves.fp8_underflowed))]);
    }
    if (run.skipped + run.notFinite > 0) {
        all.push(['Steps lost', (run.skipped || run.notFinite).toLocaleString('en'),
            run.notFinite > 0 ? counted(run.notFinite, 'loss').replace('losss', 'losses') + ' not finite' : 'skipped']);
    }
    facts(all);
}

const fileName = path => path.split(/[\\/]/).filter(Boolean).at(-1) || path;

/** The name of a model; where it lay, as a tooltip. */
function modelCell(run) {
    const name = element('span', fileName(run.model));
    name.title = run.model;
    return [name, 'name'];
}

/** A name with the colour of its run. */
function named(run) {
    const name = element('span', undefined, 'run-name');
    const dot = element('span', undefined, 'dot');
    dot.style.background = 'var(--run' + (runs.indexOf(run) % 6 + 1) + ')';
    name.append(dot, breakable(run.name));
    return name;
}

function runTable() {
    if (!several) return hide('runs');
    table(byId('runs-table'),
        [['Run'], ['State'], ['Step', true], ['Loss', true], ['Evaluation', true], ['best', true], ['Speed', true], ['Precision'], ['Model']],
        runs.map(r => [named(r), state(r), r.step.toLocaleString('en') + (r.steps > 0 ? ' of ' + r.steps.toLocaleString('en') : ''),
            number(lastOf(r.smooth)), number(lastOf(r.evaluations.eval_loss)), number(leastOf(r.evaluations.eval_loss)),
            known(median(r.curves.speed)) ? Math.round(median(r.curves.speed)).toLocaleString('en') + ' ' + r.speedUnit + '/s' : '–',
            r.precision, modelCell(r)]));
}

/** Small triangles at the top of a chart where something happened. */
function marks(events) {
    return {
        id: 'marks',
        afterDatasetsDraw(chart) {
            const {left, right, top, bottom} = chart.chartArea;
            const c = chart.ctx;
            c.save();
            const taken = new Set();
            const counts = {};
            events.forEach(e => { counts[e.kind] = (counts[e.kind] || 0) + 1; });
            [...events].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind)).forEach(e => {
                const x = chart.scales.x.getPixelForValue(e.step);
                const key = e.kind + Math.round(x / 3);
                if (x < left - 1 || x > right + 1 || taken.has(key)) return;
                taken.add(key);
                c.fillStyle = c.strokeStyle = colour(KINDS[e.kind][1]);
                const checkpoint = e.kind === 'CHECKPOINT';
                const y = checkpoint ? bottom : top;
                const d = checkpoint ? -6 : 7;
                if (!checkpoint && counts[e.kind] <= 40) {
                    c.globalAlpha = 0.35;
                    c.fillRect(x - 0.5, top, 1, bottom - top);
                    c.globalAlpha = 1;
                }
                c.beginPath();
                c.moveTo(x - 4, y);
                c.lineTo(x + 4, y);
                c.lineTo(x, y + d);
                c.fill();
            });
            c.restore();
        },
    };
}

const lastStep = () => Math.max(1, ...runs.map(r => r.step));

function drawLoss() {
    const box = byId('loss-chart');
    if (!box) return;
    box.style.height = box.clientWidth < 560 ? '300px' : '420px';
    const raw = byId('loss-raw').checked;
    const log = byId('loss-log').checked;
    const datasets = [];
    runs.forEach((run, i) => {
        const own = runColour(i);
        const prefix = several ? run.name + ', ' : '';
        datasets.push(line(prefix + 'smoothed', middle(run.smooth), own, {borderWidth: 2.5, order: 1}));
        if (!seriesIsEmpty(run.evaluations.eval_loss)) {
            datasets.push(line(prefix + 'evaluation', middle(run.evaluations.eval_loss), several ? own : colour('--warn'),
                {borderDash: [5, 4], pointRadius: run.evaluations.eval_loss.steps.length > 60 ? 0 : 3.5, pointStyle: 'rectRot', order: 0}));
        }
        if (raw) datasets.push(line(prefix + 'step', points(run.curves.loss), own + '88', {borderWidth: 1, order: 2}));
    });
    const options = {};
    if (log) options.type = 'logarithmic';
    lineChart(box, 'Curves of the loss over the steps', {datasets, y: axis('loss', options), last: lastStep(),
        plugins: byId('loss-marks').checked ? [marks(runs.flatMap(r => r.events))] : []});
    legend(raw);
}

/** What the lines and marks of the chart of losses mean. */
function legend(raw) {
    const items = [];
    const add = (text, paint) => {
        const item = element('span', undefined, 'key');
        const sign = element('span', undefined, 'sign');
        paint(sign.style);
        item.append(sign, text);
        items.push(item);
    };
    runs.forEach((run, i) => {
        const own = 'var(--run' + (i % 6 + 1) + ')';
        const prefix = several ? run.name + ', ' : '';
        add(prefix + 'smoothed', s => { s.borderTop = '3px solid ' + own; });
        if (raw) add(prefix + 'each step', s => { s.borderTop = '1px solid ' + own; });
        if (!seriesIsEmpty(run.evaluations.eval_loss)) {
            add(prefix + 'evaluation', s => { s.borderTop = '2px dashed ' + (several ? own : 'var(--warn)'); });
        }
    });
    if (byId('loss-marks').checked) {
        const kinds = new Set(runs.flatMap(r => r.events).map(e => e.kind));
        Object.keys(KINDS).filter(k => kinds.has(k)).forEach(k => add(KINDS[k][0], s => {
            s.width = s.height = '0';
            s.borderLeft = s.borderRight = '5px solid transparent';
            s[k === 'CHECKPOINT' ? 'borderBottom' : 'borderTop'] = '8px solid var(' + KINDS[k][1] + ')';
        }));
    }
    byId('loss-legend').replaceChildren(...items);
}

function loss() {
    if (runs.every(r => seriesIsEmpty(r.curves.loss) && seriesIsEmpty(r.evaluations.eval_loss))) {
        byId('loss-chart').replaceChildren(element('p', runs.some(r => r.notFinite > 0)
            ? 'No step had a finite loss.' : 'No step has been done yet.', 'hint'));
        byId('loss').querySelector('.tools').remove();
        hide('loss-legend');
        hide('loss-hint');
        byId('loss-chart').removeAttribute('id');
        return;
    }
    const spans = [...new Set(runs.map(r => r.smoothSpan))].map(n => n.toLocaleString('en')).join(' and ');
    const widths = Math.max(...runs.map(r => r.curves.loss ? r.curves.loss.width : 1));
    byId('loss-hint').textContent = 'Smoothed over about ' + spans + ' steps to each side.'
        + (widths > 1 ? ' The thin line goes through the smallest and the largest loss of every ' + widths + ' steps.' : '');
    ['loss-raw', 'loss-log', 'loss-marks'].forEach(id => { byId(id).onchange = drawLoss; });
    if (several) byId('loss-raw').checked = false;
    drawLoss();
}

const CURVES = [
    ['lr', 'Learning rate', {}],
    ['grad_norm', 'Gradient norm', {log: true}],
    ['speed', '', {}],
    ['loss_scale', 'Loss scale', {log: true, unless: 1}],
    ['fp8_clipped', 'FP8: share of clipped elements', {share: true}],
    ['fp8_underflowed', 'FP8: share of elements that became zero', {share: true}],
    ['fp8_oldest_scale', 'FP8: age of the oldest scale, steps', {unless: 0}],
    ['eval_perplexity', 'Perplexity of evaluations', {}],
];

function drawCurves() {
    const grid = byId('curve-grid');
    if (!grid) return;
    forget(grid);
    const shown = CURVES.map(([key, title, how]) => ({key, title, how, of: runs.map(r => r.curves[key] || r.evaluations[key])}))
        .filter(c => c.of.some(s => !seriesIsEmpty(s) && !s.min.concat(s.max).filter(known).every(v => v === c.how.unless)));
    if (shown.length === 0) return hide('curves');
    const boxes = shown.map(c => {
        const figure = element('figure');
        const box = element('div', undefined, 'chart');
        const title = c.title || [...new Set(runs.map(r => r.speedUnit))].join(' or ') + ' a second';
        figure.append(element('figcaption', title[0].toUpperCase() + title.slice(1)), box);
        return {figure, box, title, ...c};
    });
    grid.replaceChildren(...boxes.map(b => b.figure));
    boxes.forEach(b => {
        const values = b.of.filter(Boolean).flatMap(s => s.min.concat(s.max)).filter(known);
        const log = b.how.log && values.every(v => v > 0) && Math.max(...values) > 20 * Math.min(...values);
        const ticks = {color: colour('--soft'), maxTicksLimit: 5};
        if (b.how.share) ticks.callback = v => percent(v);
        else if (b.key === 'lr') ticks.callback = v => v === 0 ? '0' : v.toExponential(1);
        else ticks.callback = v => log && !Number.isInteger(Math.log10(v)) ? '' : Math.abs(v) >= 100000 || (v !== 0 && Math.abs(v) < 0.001)
            ? v.toExponential(0) : v.toLocaleString('en');
        lineChart(b.box, b.title + ' over the steps', {
            datasets: b.of.map((s, i) => line(several ? runs[i].name : b.title, points(s), runColour(i), {asShare: b.how.share})),
            y: axis('', Object.assign({ticks}, log ? {type: 'logarithmic'}
                : b.how.share || b.key === 'lr' || b.key === 'speed' ? {beginAtZero: true} : {})),
            first: 0,
            last: lastStep(),
        });
    });
}

const unpack = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
/** The share that a level stands for; see Fp8Map. */
const decade = level => 7 * ((level - 2) / 253 - 1);
const shareOf = level => level < 2 ? 0 : 10 ** decade(level);
let allRows = false;

/** The layers of a run: the largest level of their tensors in each column. */
function layersOf(fp8, kind) {
    const layers = new Map();
    fp8.rows.filter(r => !kind || r.kind === kind).forEach(row => {
        const clipped = unpack(row.clipped);
        const underflowed = unpack(row.underflowed);
        const found = layers.get(row.layer);
        if (!found) {
            layers.set(row.layer, {name: row.layer, clipped, underflowed, mostClipped: row.mostClipped, mostUnderflowed: row.mostUnderflowed});
            return;
        }
        clipped.forEach((level, i) => { found.clipped[i] = Math.max(found.clipped[i], level); });
        underflowed.forEach((level, i) => { found.underflowed[i] = Math.max(found.underflowed[i], level); });
        found.mostClipped = Math.max(found.mostClipped, row.mostClipped);
        found.mostUnderflowed = Math.max(found.mostUnderflowed, row.mostUnderflowed);
    });
    return [...layers.values()];
}

function fp8() {
    const measured = runs.filter(r => r.fp8.rows.length > 0);
    if (measured.length === 0) return hide('fp8');
    byId('fp8-run').replaceChildren(...measured.map(r => {
        const option = element('option', r.name);
        option.value = runs.indexOf(r);
        return option;
    }));
    if (!several) hide('fp8-run-label');
    byId('fp8-more').onclick = () => { allRows = !allRows; drawFp8(); };
    ['fp8-run', 'fp8-kind', 'fp8-order'].forEach(id => { if (byId(id)) byId(id).onchange = drawFp8; });
    drawFp8();
}

function drawFp8() {
    if (!byId('fp8')) return;
    const run = byId('fp8-run') ? runs[byId('fp8-run').value] : runs.find(r => r.fp8.rows.length > 0);
    const kind = byId('fp8-kind').value;
    const layers = layersOf(run.fp8, kind);
    const worst = byId('fp8-order').value === 'worst';
    byId('fp8-more').hidden = layers.length <= ROWS_AT_FIRST;
    byId('fp8-more').textContent = allRows ? 'Show ' + ROWS_AT_FIRST : 'Show all ' + layers.length;
    const rows = (key, most) => {
        const ordered = worst ? [...layers].sort((a, b) => b[most] - a[most]) : layers;
        return (allRows ? ordered : ordered.slice(0, ROWS_AT_FIRST)).map(l => ({name: l.name, levels: l[key]}));
    };
    heatMap(byId('clipped-map'), 'Heat map of clipped shares by layer and step', run.fp8, rows('clipped', 'mostClipped'), '--warn', layers);
    heatMap(byId('underflowed-map'), 'Heat map of underflowed shares by layer and step', run.fp8, rows('underflowed', 'mostUnderflowed'), '--accent', layers);
    byId('fp8-left').textContent = run.fp8.left > 0 ? counted(run.fp8.left, 'tensor') + ' with smaller shares are not shown.' : '';
    table(byId('fp8-table'), [['Layer'], ['Operand'], ['Format'], ['Clipped at most', true], ['Underflowed at most', true]],
        run.fp8.rows.filter(r => !kind || r.kind === kind).sort((a, b) => b.mostClipped - a.mostClipped || b.mostUnderflowed - a.mostUnderflowed)
            .slice(0, 300).map(r => [[breakable(r.layer), 'path'], r.kind, r.format, share(r.mostClipped), share(r.mostUnderflowed)]));
}

/** Rows of levels over steps, painted on a canvas, with a legend. */
function heatMap(box, label, fp8, rows, ink, layers) {
    box.replaceChildren();
    const width = box.clientWidth;
    const narrow = width < 480;
    const prefix = commonPrefix(layers.map(l => l.name));
    const suffix = commonSuffix(layers.map(l => l.name.slice(prefix.length)));
    const short = name => elided(name.slice(prefix.length, name.length - suffix.length) || name, narrow ? 18 : 30);
    const canvas = element('canvas');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', label + '; the numbers are in the table below');
    const c = canvas.getContext('2d');
    const font = (narrow ? 9 : 11) + 'px system-ui, sans-serif';
    c.font = font;
    const left = Math.min(width * 0.42, Math.max(...rows.map(r => c.measureText(short(r.name)).width)) + 8);
    const row = narrow ? 13 : 15;
    const bottom = 22;
    const height = rows.length * row + bottom;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    c.scale(ratio, ratio);
    c.font = font;
    const cell = (width - left) / fp8.columns.length;
    let least = 255;
    let most = 0;
    rows.forEach(r => r.levels.forEach(level => {
        if (level > 1) {
            least = Math.min(least, level);
            most = Math.max(most, level);
        }
    }));
    const high = most === 0 ? 0 : Math.min(0, Math.ceil(decade(most) - 1e-9));
    const low = Math.min(most === 0 ? 0 : Math.floor(decade(least) + 1e-9), high - 2);
    const none = colour('--page');
    const full = colour(ink);
    rows.forEach((r, y) => {
        c.fillStyle = colour('--soft');
        c.textAlign = 'right';
        c.textBaseline = 'middle';
        c.fillText(short(r.name), left - 6, y * row + row / 2);
        r.levels.forEach((level, x) => {
            if (level === 0) return;
            c.globalAlpha = 1;
            c.fillStyle = none;
            c.fillRect(left + x * cell, y * row + 1, Math.ceil(cell), row - 1);
            if (level > 1) {
                c.globalAlpha = 0.08 + 0.92 * Math.max(0, (decade(level) - low) / (high - low)) ** 1.5;
                c.fillStyle = full;
                c.fillRect(left + x * cell, y * row + 1, Math.ceil(cell), row - 1);
            }
            c.globalAlpha = 1;
        });
    });
    c.fillStyle = colour('--soft');
    c.textBaseline = 'top';
    const first = i => Math.max(1, fp8.columns[i]);
    const end = i => fp8.columns[i] + fp8.width - 1;
    c.textAlign = 'left';
    c.fillText('step ' + first(0).toLocaleString('en'), left, rows.length * row + 6);
    if (fp8.columns.length > 1) {
        c.textAlign = 'right';
        c.fillText(Math.min(end(fp8.columns.length - 1), lastStep()).toLocaleString('en'), width, rows.length * row + 6);
    }
    const tip = element('div', undefined, 'tip');
    tip.hidden = true;
    canvas.onmousemove = event => {
        const x = Math.floor((event.offsetX - left) / cell);
        const y = Math.floor(event.offsetY / row);
        const level = rows[y] && x >= 0 ? rows[y].levels[x] : undefined;
        tip.hidden = level === undefined;
        if (tip.hidden) return;
        const steps = fp8.width > 1 ? 'steps ' + first(x).toLocaleString('en') + ' to ' + end(x).toLocaleString('en')
            : 'step ' + first(x).toLocaleString('en');
        tip.textContent = rows[y].name + ', ' + steps + ': '
            + (level === 0 ? 'not measured' : level === 1 ? 'none' : 'about ' + percent(shareOf(level)));
        tip.style.left = Math.max(0, Math.min(event.offsetX + 10, width - tip.offsetWidth)) + 'px';
        tip.style.top = (event.offsetY + 18) + 'px';
    };
    canvas.onmouseleave = () => { tip.hidden = true; };
    const legend = element('p', undefined, 'ramp');
    const bar = element('span', undefined, 'bar');
    bar.style.background = 'linear-gradient(to right, color-mix(in srgb, var(' + ink + ') 8%, var(--page)), color-mix(in srgb, var(' + ink + ') 40%, var(--page)) 50%, var(' + ink + '))';
    legend.append(percent(10 ** low), bar, percent(10 ** high) + ', logarithmic');
    box.append(canvas, tip, legend);
}

const percent = x => Number((100 * x).toPrecision(2)) + ' %';

function drawScales() {
    const grid = byId('scale-grid');
    if (!grid) return;
    forget(grid);
    const all = runs.flatMap(r => r.scales.map(s => ({run: r, ...s})))
        .sort((a, b) => b.mostClipped - a.mostClipped || b.mostUnderflowed - a.mostUnderflowed).slice(0, 6);
    if (all.length === 0) return hide('scales');
    const boxes = all.map(s => {
        const figure = element('figure');
        const caption = element('figcaption');
        caption.append(breakable(s.layer + '.' + s.kind));
        caption.append(element('span', [several && s.run.name, s.format, 'clipped at most ' + share(s.mostClipped), 'underflowed '
            + share(s.mostUnderflowed), s.oldest > 0 && 'scale up to ' + counted(s.oldest, 'step') + ' old'].filter(Boolean).join(', ')));
        const box = element('div', undefined, 'chart');
        figure.append(caption, box);
        return {figure, box, s};
    });
    grid.replaceChildren(...boxes.map(b => b.figure));
    boxes.forEach(({box, s}) => {
        const values = [s.amax, s.room].flatMap(x => x.min.concat(x.max)).filter(v => known(v) && v > 0);
        const datasets = [line('amax', points(s.amax), colour('--accent'))];
        if (!seriesIsEmpty(s.room)) datasets.push(line('room of the scale', points(s.room), colour('--warn'), {stepped: true}));
        if (values.length === 0) return box.replaceChildren(element('p', 'no finite values', 'hint'));
        lineChart(box, 'Largest magnitude of ' + s.layer + ' and room of its scale over the steps', {
            datasets,
            y: axis('', {type: 'logarithmic', ticks: {color: colour('--soft'), maxTicksLimit: 6, callback: (v, i, ticks) =>
                ticks.length <= 6 || Number.isInteger(Math.log10(v)) || i === 0 || i === ticks.length - 1 ? short(v) : ''}}),
            first: 0,
            last: lastStep(),
            legend: true,
        });
    });
}

let shownEvents = EVENTS_AT_A_TIME;

function events() {
    const all = runs.flatMap(r => r.events.map(e => ({run: r, ...e}))).sort((a, b) => a.step - b.step);
    if (all.length === 0) return hide('events');
    Object.keys(KINDS).filter(k => all.some(e => e.kind === k)).forEach(k => {
        const option = element('option', KINDS[k][0]);
        option.value = k;
        byId('event-kind').append(option);
    });
    const left = runs.flatMap(r => Object.entries(r.eventsLeft)).reduce((sum, [, n]) => sum + n, 0);
    const list = () => {
        const wanted = byId('event-filter').value.toLowerCase();
        const kind = byId('event-kind').value;
        const text = e => [e.text].concat(Object.entries(e.more).map(([k, v]) => k + ' ' + v)).filter(Boolean).join(', ');
        const found = all.filter(e => (!kind || e.kind === kind) && (e.run.name + ' ' + text(e)).toLowerCase().includes(wanted));
        byId('event-count').textContent = found.length + ' of ' + all.length
            + (left > 0 ? '; ' + left.toLocaleString('en') + ' later ones are not on this page' : '');
        offerMore('event-more', found.length - shownEvents, EVENTS_AT_A_TIME);
        table(byId('event-table'), (several ? [['Run']] : []).concat([['Step', true], ['Event'], ['']]),
            found.slice(0, shownEvents).map(e => (several ? [named(e.run)] : []).concat([
                e.step.toLocaleString('en') + (e.last > e.step ? ' to ' + e.last.toLocaleString('en') : ''),
                [KINDS[e.kind][0], KINDS[e.kind][1] === '--warn' ? 'kept' : 'scheme'], [breakable(text(e)), 'name']])));
    };
    byId('event-filter').oninput = () => { shownEvents = EVENTS_AT_A_TIME; list(); };
    byId('event-kind').onchange = () => { shownEvents = EVENTS_AT_A_TIME; list(); };
    byId('event-more').onclick = () => { shownEvents += EVENTS_AT_A_TIME; list(); };
    list();
}

function more() {
    const keys = [...new Set(runs.flatMap(r => Object.keys(r.more)))].sort();
    if (keys.length === 0) return hide('more');
    byId('more-key').replaceChildren(...keys.map(k => element('option', k)));
    byId('more-key').onchange = drawMore;
    const left = runs.reduce((sum, r) => sum + r.moreLeft, 0);
    if (left > 0) byId('more-left').textContent = counted(left, 'further number') + ' not on this page.';
    drawMore();
}

function drawMore() {
    if (!byId('more')) return;
    const key = byId('more-key').value;
    byId('more-chart').style.height = '260px';
    lineChart(byId('more-chart'), key + ' over the steps', {
        datasets: runs.map((r, i) => line(several ? r.name : key, points(r.more[key]), runColour(i))),
        y: axis(''),
        last: lastStep(),
    });
}

function settings() {
    const keys = [...new Set(runs.flatMap(r => Object.keys(r.settings)))].sort();
    if (keys.length === 0) return hide('settings');
    if (!several) hide('settings-all-label');
    const list = () => {
        const all = !several || byId('settings-all').checked;
        const shown = keys.filter(k => all || new Set(runs.map(r => r.settings[k])).size > 1);
        table(byId('settings-table'), [['Key']].concat(several ? runs.map(r => [r.name]) : [['Value']]),
            shown.map(k => [[breakable(k), 'path']].concat(runs.map(r => [r.settings[k] === undefined ? '–' : r.settings[k], 'name']))));
        if (shown.length === 0) byId('settings-table').replaceChildren(element('caption', 'The runs have the same settings.'));
    };
    if (several) byId('settings-all').onchange = list;
    list();
}

head();
summary();
runTable();
loss();
drawCurves();
fp8();
drawScales();
events();
more();
settings();
noteList(runs.flatMap(r => r.notes.map(n => several ? r.name + ': ' + n : n)));
runFacts(data.run);

onColours(() => {
    if (byId('loss-legend')) drawLoss();
    drawCurves();
    drawFp8();
    drawScales();
    drawMore();
});
let width = innerWidth;
addEventListener('resize', () => {
    if (innerWidth !== width) drawFp8();
    width = innerWidth;
});

/** Loads the page again, with what was chosen on it. */
function reload() {
    const chosen = {};
    document.querySelectorAll('input[id], select[id]').forEach(e => { chosen[e.id] = e.type === 'checkbox' ? e.checked : e.value; });
    try {
        sessionStorage.setItem(location.pathname, JSON.stringify(chosen));
    } catch (e) {
        // a browser that keeps nothing for files shows the page as it is at first
    }
    location.reload();
}

function chooseAgain() {
    let chosen = {};
    try {
        chosen = JSON.parse(sessionStorage.getItem(location.pathname)) || {};
    } catch (e) {
        return;
    }
    Object.entries(chosen).forEach(([id, value]) => {
        const e = byId(id);
        if (!e || value === (e.type === 'checkbox' ? e.checked : e.value)) return;
        if (e.type === 'checkbox') e.checked = value;
        else if (e.tagName !== 'SELECT' || [...e.options].some(o => o.value === value)) e.value = value;
        const again = e.onchange || e.oninput;
        if (again) again();
    });
}

if (data.refreshSeconds > 0) {
    chooseAgain();
    setTimeout(reload, 1000 * data.refreshSeconds);
}
