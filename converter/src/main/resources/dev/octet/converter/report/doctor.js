const result = data.result;
const replays = result.replays;
const words = name => name.toLowerCase().replace(/_/g, ' ');
/** An excess as people read it: infinite where something was not finite. */
const excess = x => x === 'Infinity' ? '∞' : !known(x) ? '–' : x === 0 ? '0' : x < 0.01 ? '< 0.01' : Number(x.toPrecision(3)).toLocaleString('en');
/** A gap to the baseline, which may be below it. */
const gap = x => known(x) ? (100 * x).toFixed(2).replace('-', '−') + ' %' : fixed(x, 1);
const size = x => x === 'Infinity' ? Infinity : x;
const PRODUCTS = ['fprop', 'dgrad', 'wgrad'];
let allCells = false;

function head() {
    byId('verdict').textContent = result.verdict;
    byId('line').textContent = [result.subject, data.symptom,
        result.complete ? '' : 'the budget was spent before the end'].filter(Boolean).join(' · ');
    const all = [];
    const triage = result.triage;
    if (triage) {
        if (triage.onset > 0) all.push(['Begins at step', triage.onset.toLocaleString('en'), data.symptom]);
        if (known(triage.gap)) all.push(['Gap at the end', gap(triage.gap), 'of the baseline’s loss; noise explains ' + gap(triage.threshold)]);
        all.push(['Spikes', String(triage.spikes.length), triage.baselineSpikes.length + ' in the baseline']);
    }
    if (replays) {
        all.push(['Layers in FP8', replays.layers.toLocaleString('en'), words(replays.verdict)]);
        all.push(['Replays', result.replaysRun.toLocaleString('en'), 'of steps ' + replays.firstStep.toLocaleString('en') + ' to '
            + replays.lastStep.toLocaleString('en') + (replays.toFind > 0 ? '; ' + replays.toFind + ' to find it' : '')]);
        if (replays.proof) all.push(['With the cure', excess(replays.proof.excess), 'of what noise explains']);
    }
    if (all.length === 0) hide('summary');
    else facts(all);
}

/** A text to be copied, with a button. */
function copyable(title, text) {
    const box = element('div', undefined, 'copy');
    const heading = element('h3', title);
    const button = element('button', 'Copy');
    button.type = 'button';
    const code = element('pre', text);
    button.onclick = () => {
        const done = () => {
            button.textContent = 'Copied';
            setTimeout(() => { button.textContent = 'Copy'; }, 1500);
        };
        const select = () => getSelection().selectAllChildren(code);
        if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
        else select();
    };
    heading.append(button);
    box.append(heading, code);
    return box;
}

function cure() {
    if (!result.cure && (!replays || replays.guilty.length === 0)) return hide('cure');
    const guilty = replays ? replays.guilty : [];
    if (guilty.length > 0) {
        table(byId('guilty-table'), [['Guilty'], ['Operands'], ['Remedy']], guilty.map(g => {
            const names = element('div');
            g.products.slice(0, 12).forEach(p => names.append(breakable(p, 'div')));
            if (g.products.length > 12) names.append(element('div', 'and ' + (g.products.length - 12) + ' more'));
            return [[names, 'name'], g.operands.join(', '), g.remedy];
        }));
    } else hide('guilty-table');
    const proof = replays && replays.proof;
    byId('cure-line').textContent = !result.cure ? 'No cure is known.' : proof
        ? 'The smallest change that brings the replay back to the reference; proved by replaying with it.' : 'Not proved by a replay.';
    if (proof) {
        const sick = replays.trials.filter(t => t.sick)[0];
        const row = (name, t) => [[name, 'name'], excess(t.excess), short(t.loss), fixed(t.cosine, 6), fixed(t.update, 6),
            t.sick ? ['sick', 'kept'] : ['healthy', 'converted']];
        table(byId('proof-table'), [['Replay'], ['Distance / noise', true], ['Loss off by', true], ['Gradient cosine', true],
            ['Update cosine', true], ['']], (sick ? [row(sick.what, sick)] : []).concat([row('with the cure', proof)]));
    } else {
        byId('proof-table').closest('.wide').previousElementSibling.remove();
        hide('proof-table');
    }
    if (result.cure) {
        byId('cure-texts').replaceChildren(...[
            ['Octet: config.yaml', result.cure.precision],
            ['Transformer Engine: debug file', result.cure.teDebug],
            ['torchao: module_filter_fn', result.cure.torchaoFilter],
        ].filter(([, text]) => text).map(([title, text]) => copyable(title, text)));
    }
    if (result.written.length > 0) byId('cure-files').textContent = 'Written to ' + result.written.join(', ') + '.';
    else hide('cure-files');
}

function advice() {
    if (result.advice.length === 0) return hide('advice');
    byId('advice-list').replaceChildren(...result.advice.map(a => element('li', a)));
}

function curves() {
    const drawn = data.curves.filter(c => !seriesIsEmpty(c.loss));
    if (drawn.length === 0) return hide('curves');
    const t = result.triage;
    byId('curve-line').textContent = (drawn.some(c => c.loss.width > 1) ? 'The smallest and the largest loss of every '
        + Math.max(...drawn.map(c => c.loss.width)) + ' steps. ' : '') + (t && t.onset > 0 ? 'The line is where it begins, step '
        + t.onset.toLocaleString('en') + '.' : '');
    byId('curve-log').onchange = drawCurves;
    byId('curve-legend').replaceChildren(...drawn.map((c, i) => {
        const key = element('span', undefined, 'key');
        const sign = element('span', undefined, 'sign');
        sign.style.borderTop = (i === 0 ? '3px solid' : '2px dashed') + ' var(--run' + (i % 6 + 1) + ')';
        key.append(sign, c.name);
        return key;
    }));
    drawCurves();
}

/** A line at the step where it begins. */
const onset = step => ({
    id: 'onset',
    afterDatasetsDraw(chart) {
        const x = chart.scales.x.getPixelForValue(step);
        const {top, bottom} = chart.chartArea;
        const c = chart.ctx;
        c.save();
        c.fillStyle = colour('--warn');
        c.fillRect(x - 0.75, top, 1.5, bottom - top);
        c.restore();
    },
});

function drawCurves() {
    if (!byId('curves')) return;
    const box = byId('curve-chart');
    box.style.height = '320px';
    const drawn = data.curves.filter(c => !seriesIsEmpty(c.loss));
    const ends = drawn.flatMap(c => c.loss.steps.map(s => s + c.loss.width - 1));
    const firsts = drawn.flatMap(c => c.loss.steps);
    lineChart(box, 'Curves of the loss over the steps', {
        datasets: drawn.map((c, i) => line(c.name, points(c.loss), colour('--run' + (i % 6 + 1)),
            i === 0 ? {borderWidth: 2, order: 1} : {borderDash: [5, 4], order: 0})),
        y: axis('loss', byId('curve-log').checked ? {type: 'logarithmic'} : {}),
        first: firsts.reduce((a, b) => Math.min(a, b), Infinity),
        last: ends.reduce((a, b) => Math.max(a, b), 1),
        plugins: result.triage && result.triage.onset > 0 ? [onset(result.triage.onset)] : [],
    });
}

function cells() {
    if (!replays || replays.cells.length === 0) return hide('cells');
    byId('cell-order').onchange = drawCells;
    byId('cell-more').onclick = () => { allCells = !allCells; drawCells(); };
    if (new Set(replays.cells.map(c => c.module)).size > LAYERS_AT_FIRST) byId('cell-order').value = 'worst';
    drawCells();
    if (replays.suspects.length === 0) return hide('suspects');
    byId('suspects').textContent = 'Not all was found. Something guilty is among ' + replays.suspects.slice(0, 30).join(', ')
        + (replays.suspects.length > 30 ? ' and ' + (replays.suspects.length - 30) + ' more' : '') + '.';
}

function drawCells() {
    const layers = new Map();
    replays.cells.forEach(c => {
        if (!layers.has(c.module)) layers.set(c.module, {name: c.module, products: {}});
        layers.get(c.module).products[c.product.toLowerCase()] = c;
    });
    const worst = l => Math.max(...Object.values(l.products).map(c => known(size(c.excess)) || size(c.excess) === Infinity ? size(c.excess) / Math.sqrt(c.together || 1) : -1));
    const all = [...layers.values()];
    const ordered = byId('cell-order').value === 'worst' ? [...all].sort((a, b) => worst(b) - worst(a)) : all;
    byId('cell-more').hidden = all.length <= LAYERS_AT_FIRST;
    byId('cell-more').textContent = allCells ? 'Show ' + LAYERS_AT_FIRST : 'Show all ' + all.length;
    const guilty = new Set(replays.guilty.flatMap(g => g.products));
    table(byId('cell-table'), [['Layer']].concat(PRODUCTS.map(p => [p, true])),
        (allCells ? ordered : ordered.slice(0, LAYERS_AT_FIRST)).map(l => [[breakable(l.name), 'path']].concat(PRODUCTS.map(p => {
            const c = l.products[p];
            const cell = element('span', c ? c.together > 1 ? '(' + excess(c.excess) + ')' : excess(c.excess) : '–', 'cell');
            if (c) paint(cell, c, guilty.has(l.name + ' ' + p));
            return [cell, 'number'];
        }))));
}

/** A cell is the more coloured the sicker, on a logarithmic scale from 1 to 100; a healthy one is green. */
function paint(cell, c, isGuilty) {
    const x = size(c.excess);
    if (isGuilty) cell.classList.add('guilty');
    if (!known(x) && x !== Infinity) return;
    const share = x <= 1 ? 0 : Math.min(1, 0.25 + 0.75 * Math.log10(x) / 2);
    const strength = (c.together > 1 ? 0.35 : 1) * (x <= 1 ? 18 : 15 + 60 * share);
    cell.style.background = 'color-mix(in srgb, var(' + (x <= 1 ? '--good' : '--warn') + ') ' + strength.toFixed(0) + '%, transparent)';
    cell.title = (isGuilty ? 'guilty; ' : '') + (c.together > 1 ? 'of ' + c.together + ' products together' : x <= 1 ? 'healthy' : 'sick');
}

function trials() {
    if (!replays || replays.trials.length === 0) return hide('trials');
    drawReplays();
    byId('trial-line').textContent = 'In their order; each computes the same steps with the same samples. A replay is sick when it is farther from the reference than noise explains.';
    table(byId('trial-table'), [['What'], ['Distance / noise', true], [''], ['Farthest off'], ['Loss off by', true], ['Gradient cosine', true],
        ['Update cosine', true], ['Seconds', true]],
        replays.trials.map(t => [[t.what, 'name'], excess(t.excess), t.sick ? ['sick', 'kept'] : ['healthy', 'converted'], [breakable(t.by), 'name'],
            short(t.loss), fixed(t.cosine, 6), fixed(t.update, 6), t.reused ? 'journal' : fixed(t.seconds, 1)]));
}

/** The losses of the reference, of the replay farthest from it, and of that with the cure. */
function drawReplays() {
    if (!replays || !byId('replay-chart')) return;
    const all = replays.trials;
    const farthest = all.slice(1).reduce((a, b) => !a || size(b.excess) > size(a.excess) ? b : a, undefined);
    const drawn = [all[0], farthest, replays.proof].filter(t => t && t.losses.some(known));
    if (drawn.length === 0 || all[0].losses.length < 2) return hide('replay-chart');
    byId('replay-chart').style.height = '220px';
    lineChart(byId('replay-chart'), 'Losses of the steps in replays', {
        datasets: drawn.map((t, i) => line(t.what, t.losses.map((loss, s) => ({x: replays.firstStep + s, y: loss})),
            colour('--run' + (i + 1)), {pointRadius: 3, borderDash: i === 0 ? [] : [5, 4]})),
        y: axis('loss'),
        first: replays.firstStep,
        last: replays.lastStep,
        legend: true,
    });
}

function restore() {
    const r = result.restore;
    if (!r) return hide('restore');
    byId('restore-line').textContent = 'From the checkpoint of step ' + r.fromStep.toLocaleString('en') + ', ' + counted(r.steps, 'step') + ': the gap to the baseline was '
        + gap(r.gapBefore) + ' and is ' + gap(r.gapAfter) + ' after them; it ' + (r.returns ? 'returns.' : 'does not return.');
}

function tasks() {
    if (!result.tasks) return hide('tasks');
    table(byId('task-table'), [['Task'], ['Baseline', true], ['Run', true], ['Lost', true], ['Standard error', true], ['']],
        result.tasks.tasks.map(t => [[t.name, 'name'], number(t.baseline), number(t.run), number(t.lost), t.stderr > 0 ? number(t.stderr) : '–',
            t.bad ? ['bad', 'kept'] : ['', '']]));
}

function exported() {
    const e = result.exported;
    if (!e) return hide('exported');
    byId('exported-line').textContent = e.exported + ', layout ' + e.layout + ': ' + (e.passed ? 'as the run computes' : 'not as the run computes')
        + (e.worstTensor ? '; the worst weight, ' + e.worstTensor + ', has ' + decibels(e.sqnrDbMin) : '') + '.';
    if (e.errors.length === 0) return hide('exported-table');
    table(byId('exported-table'), [['Rule'], ['What'], ['Where'], ['Fix']],
        e.errors.map(x => [x.rule, [x.what, 'name'], [x.places.join(', ') + (x.count > x.places.length ? ' and ' + (x.count - x.places.length)
            + ' more' : ''), 'name'], [x.fix, 'name']]));
}

head();
cure();
advice();
curves();
cells();
trials();
restore();
tasks();
exported();
runFacts(data.run);

onColours(() => {
    drawCurves();
    drawReplays();
});
