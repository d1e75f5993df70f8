'use strict';
(() => {
    const WORST = 30;
    const ROWS_AT_A_TIME = 200;
    const ERROR_BINS = ['≤ 1/64', '≤ 1/4', '≤ 1/2', '≤ 3/4', '≤ 1', '≤ 2', '≤ 8', '> 8'];
    const FIRST_BIN_BEYOND = 3;
    const WORDS = {IDENTICAL: 'identical', SAME_VALUES: 'same values', WITHIN_ONE_ROUNDING: 'one rounding', BEYOND: 'beyond'};
    const data = JSON.parse(document.getElementById('data').textContent);
    const charts = new Set();

    // Jackson writes numbers that JSON lacks as text
    const known = x => typeof x === 'number' && Number.isFinite(x);
    const fixed = (x, digits) => known(x) ? x.toFixed(digits) : x === 'Infinity' ? '∞' : x === '-Infinity' ? '−∞' : '–';
    const decibels = x => x === 'Infinity' ? 'exact' : known(x) ? x.toFixed(1) : fixed(x, 1);
    const short = x => !known(x) ? fixed(x, 1) : x === 0 ? '0' : Math.abs(x) >= 0.001 && Math.abs(x) < 1e5
        ? String(Number(x.toPrecision(3))) : x.toExponential(2);
    const share = x => !known(x) ? fixed(x, 1) : x === 0 ? '0 %' : x < 0.0001 ? '< 0.01 %' : (100 * x).toFixed(2) + ' %';
    const byId = id => document.getElementById(id);
    const element = (tag, text, className) => {
        const e = document.createElement(tag);
        if (text !== undefined) e.textContent = text;
        if (className) e.className = className;
        return e;
    };
    const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const hide = id => byId(id).remove();
    const nameOf = t => (t.a === t.b ? t.a : t.a + ' = ' + t.b) + (t.transposed ? ' (transposed)' : '');

    /** Fills a table; a column is [title, isNumber]; a cell is text or [text, class]. */
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
                line.append(element('td', text, className || (columns[i][1] ? 'number' : '')));
            });
            body.append(line);
        });
        const thead = element('thead');
        thead.append(head);
        target.replaceChildren(thead, body);
    }

    function elided(name, length) {
        const tail = Math.ceil(length * 0.7);
        return name.length <= length ? name : name.slice(0, length - tail - 1) + '…' + name.slice(-tail);
    }

    const summary = data.summary;
    const count = closeness => summary.byCloseness[closeness] || 0;
    const complete = data.uncomparable.length + data.onlyA.length + data.onlyB.length === 0;

    function head() {
        const verdict = !complete || count('BEYOND') > 0 || count('WITHIN_ONE_ROUNDING') > 0
            ? count('BEYOND') > 0 ? count('BEYOND') + ' of ' + summary.pairs + ' tensors differ by more than one rounding'
                : count('WITHIN_ONE_ROUNDING') > 0 ? 'No tensor differs by more than one rounding' : 'All tensors in both are equal'
            : count('SAME_VALUES') > 0 ? 'The same numbers in different forms' : 'The models are identical';
        byId('verdict').textContent = verdict;
        byId('line').textContent = complete ? 'Every weight of each model is in the other.'
            : 'Some weights could not be compared; they are listed below.';
        table(byId('model-table'), [[''], ['Model'], ['Format']],
            [['A', [data.a, 'name'], data.formatA], ['B', [data.b, 'name'], data.formatB]]);
        const facts = [
            ['Tensors compared', String(summary.pairs), share(summary.matched) + ' of A'],
            ['SQNR, all together', known(summary.sqnrDb) ? decibels(summary.sqnrDb) + ' dB' : decibels(summary.sqnrDb),
                'worst tensor ' + decibels(summary.sqnrDbMin)],
            ['Cosine, all together', fixed(summary.cosine, 6), 'worst tensor ' + fixed(summary.cosineMin, 6)],
            ['Elements that differ', share(summary.elements === 0 ? 0 : summary.differing / summary.elements),
                'of ' + summary.elements.toLocaleString('en')],
            ['Largest error', short(summary.maxUlpError), 'units in the last place'],
            ['Rounded twice', String(summary.roundedTwice), 'tensors'],
        ];
        byId('summary').replaceChildren(...facts.map(([label, value, more]) => {
            const fact = element('div', undefined, 'fact');
            fact.append(element('div', label, 'label'), element('div', value, 'value'), element('div', more, 'more'));
            return fact;
        }));
    }

    function draw(box, label, config) {
        charts.forEach(chart => {
            if (box.contains(chart.canvas)) { charts.delete(chart); chart.destroy(); }
        });
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

    function worst() {
        const shown = data.tensors.filter(t => known(t.sqnrDb)).sort((a, b) => a.sqnrDb - b.sqnrDb).slice(0, WORST);
        if (shown.length === 0) return hide('worst');
        const box = byId('worst-chart');
        const narrow = box.clientWidth < 560;
        box.style.height = (shown.length * (narrow ? 15 : 18) + 60) + 'px';
        draw(box, 'Bar chart of the SQNR of the ' + shown.length + ' worst tensors; the numbers are in the table below', {
            type: 'bar',
            data: {
                labels: shown.map(t => elided(t.a, narrow ? 26 : 56)),
                datasets: [{
                    data: shown.map(t => t.sqnrDb),
                    backgroundColor: shown.map(t => t.closeness === 'BEYOND' ? colour('--warn') : colour('--fill')),
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
                    x: axis('dB', {beginAtZero: true}),
                    y: axis('', {ticks: {color: colour('--soft'), autoSkip: false, font: {size: narrow ? 9 : 11}}, grid: {display: false}}),
                },
                plugins: {
                    legend: {display: false},
                    tooltip: {
                        callbacks: {
                            title: items => nameOf(shown[items[0].dataIndex]),
                            label: item => fixed(item.parsed.x, 1) + ' dB, ' + WORDS[shown[item.dataIndex].closeness],
                        },
                    },
                },
            },
        });
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
        const found = data.tensors.filter(t => t.rounding.verdict !== 'NONE');
        if (found.length === 0) return hide('rounding');
        const words = {ROUNDED_AGAIN: 'rounded again', THROUGH_ANOTHER_GRID: 'through another grid', UNEXPLAINED: 'unexplained'};
        table(byId('rounding-table'), [['Tensor'], ['Finding'], ['Beyond ½ unit', true], ['Evidence']],
            found.map(t => [[nameOf(t), 'name'], [words[t.rounding.verdict], 'kept'], share(t.rounding.beyondHalf),
                [t.rounding.evidence, 'name']]));
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
        const left = found.length - shownRows;
        byId('tensor-more').hidden = left <= 0;
        byId('tensor-more').textContent = 'Show ' + Math.min(left, ROWS_AT_A_TIME) + ' more (' + left + ' left)';
        table(byId('tensor-table'),
            [['Tensor'], ['Is'], ['SQNR, dB', true], ['Cosine', true], ['Max abs', true], ['Max ulp', true], ['Differ', true],
                ['Amax', true], ['Scales changed'], ['A'], ['B'], ['Notes']],
            found.slice(0, shownRows).map(t => [[nameOf(t), 'name'],
                [WORDS[t.closeness], t.closeness === 'BEYOND' ? 'kept' : 'converted'],
                decibels(t.sqnrDb), fixed(t.cosine, 6), short(t.maxAbsError), short(t.maxUlpError),
                share(t.elements === 0 ? 0 : t.differing / t.elements), share(t.relativeAmaxDifference), scales(t.scales),
                t.schemeA, t.schemeB, [t.notes.join('; '), 'name']]));
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
    if (data.notes.length === 0) hide('notes');
    else byId('note-list').replaceChildren(...data.notes.map(n => element('li', n)));

    // canvas colours do not follow the style sheet by themselves
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
        if (byId('worst')) worst();
        if (byId('errors')) errors();
    });
})();
