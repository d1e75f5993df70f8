package dev.octet.converter.verify;

import java.util.List;

/**
 * What was found.
 *
 * @param model the path as it was given
 * @param kind {@code checkpoint}, {@code graph} or {@code adapter}
 * @param layout how quantised weights lie in a checkpoint; {@code onnx} for a graph, the method for an adapter
 * @param consumers for whom was checked
 * @param devices numbers of devices, powers of two up to 64, that a quantised checkpoint can be split onto by tensor parallelism; empty
 *     where that was not asked for or does not apply
 * @param findings worst first
 * @param errors findings of that severity
 * @param warnings findings of that severity
 * @param advice findings of that severity
 * @param rulesRun ids of the rules that ran
 * @param rulesSkipped those that did not, and why
 * @param notes what else the reader should know: what was not read
 */
public record Verification(
        String model,
        String kind,
        String layout,
        List<String> consumers,
        List<Integer> devices,
        List<Finding> findings,
        int errors,
        int warnings,
        int advice,
        List<String> rulesRun,
        List<Skipped> rulesSkipped,
        List<String> notes) {
    /** A rule that did not run. */
    public record Skipped(String rule, String reason) {}

    public Verification {
        consumers = List.copyOf(consumers);
        devices = List.copyOf(devices);
        findings = List.copyOf(findings);
        rulesRun = List.copyOf(rulesRun);
        rulesSkipped = List.copyOf(rulesSkipped);
        notes = List.copyOf(notes);
    }

    /** Whether all findings are less severe than error. */
    public boolean passed() {
        return errors == 0;
    }
}
