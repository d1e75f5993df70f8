const result = data.result;
const consumers = result.consumers.join(', ');
const SEVERITIES = {ERROR: ['error', 'kept'], WARNING: ['warning', 'kept'], ADVICE: ['advice', '']};
const counted = (n, word) => n + ' ' + word + (n === 1 ? '' : 's');

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
    table(byId('finding-table'), [['Severity'], ['For'], ['What'], ['Where'], ['Fix'], ['Rule']],
        result.findings.map(f => [SEVERITIES[f.severity] || f.severity, f.consumers.map(name).join(', '), [f.what, 'name'],
            [f.places.map(p => p.name + (p.detail ? ' (' + p.detail + ')' : '')).join('; ')
                + (f.count > f.places.length ? ' and ' + (f.count - f.places.length) + ' more' : ''), 'name'],
            [f.fix, 'name'], [f.rule + ' (' + f.source + ')', 'name']]));
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
