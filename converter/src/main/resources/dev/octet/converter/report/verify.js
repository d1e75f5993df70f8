const result = data.result;
const consumers = result.consumers.join(', ');
const SEVERITIES = {ERROR: ['error', 'kept'], WARNING: ['warning', 'kept'], ADVICE: ['advice', '']};

function head() {
    byId('verdict').textContent = result.errors > 0
        ? counted(result.errors, 'error') + ': ' + [...new Set(result.findings.filter(f => f.severity === 'ERROR')
            .flatMap(f => f.consumers))].map(name).join(', ') + ' would refuse or misread it'
        : 'No errors for ' + consumers;
    byId('line').textContent = [result.model, result.layout && 'layout ' + result.layout].filter(Boolean).join(' · ');
    facts([
        ['Errors', String(result.errors), 'refused or misread'],
        ['Warnings', String(result.warnings), 'read, perhaps not as meant'],
        ['Advice', String(result.advice), ''],
        ['Rules', String(result.rulesRun.length), result.rulesSkipped.length + ' skipped'],
    ].concat(result.devices.length > 0 ? [['Splits onto', result.devices.join(', '), 'devices, by tensor parallelism']] : []));
}

function name(consumer) {
    return consumer.toLowerCase().replace('_', '-');
}

function findings() {
    if (result.findings.length === 0) return hide('findings');
    byId('finding-list').replaceChildren(...result.findings.map(f => {
        const [severity, tone] = SEVERITIES[f.severity] || [f.severity, ''];
        const card = element('div', undefined, 'finding');
        const title = element('h3', f.what);
        title.prepend(element('span', severity, 'tag ' + tone), ' ');
        const list = element('dl');
        const say = (term, texts) => {
            list.append(element('dt', term));
            texts.forEach(t => list.append(element('dd', t)));
        };
        say('for', [f.consumers.map(name).join(', ')]);
        say('where', f.places.map(p => p.name + (p.detail ? ' (' + p.detail + ')' : ''))
            .concat(f.count > f.places.length ? ['and ' + (f.count - f.places.length) + ' more'] : []));
        say('fix', [f.fix]);
        const source = element('details');
        source.append(element('summary', f.rule), element('p', 'Source: ' + f.source, 'hint'));
        card.append(title, list, source);
        return card;
    }));
}

function rules() {
    byId('rule-count').textContent = counted(result.rulesRun.length, 'rule') + ' ran, ' + result.rulesSkipped.length + ' did not';
    table(byId('rule-table'), [['Rule'], ['']],
        result.rulesRun.map(r => [r, ['ran', 'converted']]).concat(result.rulesSkipped.map(s => [s.rule, [s.reason, 'name']])));
}

head();
findings();
noteList(result.notes);
rules();
runFacts(data.run);
