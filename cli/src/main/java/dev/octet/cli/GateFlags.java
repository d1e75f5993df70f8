package dev.octet.cli;

import dev.octet.formats.error.Nearest;
import dev.octet.pipeline.Gates;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.commons.cli.Option;

/** {@code --gate NAME=VALUE}: measures that a run must reach, else it exits with 1. */
final class GateFlags {
    private GateFlags() {}

    /**
     * Reads all gates of a command line.
     *
     * @param measures the names there are
     * @param example of one, for who gets it wrong
     */
    static Gates of(Arguments arguments, Option option, List<String> measures, String example) {
        Map<String, Double> limits = new LinkedHashMap<>();
        for (String text : arguments.texts(option)) {
            String[] parts = text.split("=", 2);
            if (!measures.contains(parts[0])) {
                throw arguments.usage("unknown gate '" + parts[0] + "'", Nearest.advice(parts[0], measures));
            }
            double limit = parts.length < 2 ? Double.NaN : number(parts[1]);
            if (!Double.isFinite(limit)) {
                throw arguments.usage("--gate '" + text + "' has no number", "for example --gate " + example);
            }
            limits.put(parts[0], limit);
        }
        return new Gates(limits);
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            return Double.NaN;
        }
    }

    /** A result as a line for people, with its line break. */
    static String line(Gates.Result result) {
        return String.format(
                Locale.ROOT,
                "gate %s: %s%s, wanted %s %s: %s%n",
                result.measure(),
                value(result.value()),
                result.of().isEmpty() ? "" : " (" + Printable.of(result.of()) + ")",
                Gates.isAtMost(result.measure()) ? "at most" : "at least",
                result.limit(),
                passed(result.passed()));
    }

    /** A word for whether a check passed. */
    static String passed(boolean passed) {
        return TextStyle.here().paint(passed ? Tone.GOOD : Tone.BAD, passed ? "passed" : "FAILED");
    }

    private static String value(double value) {
        return Double.isNaN(value)
                ? "not measured"
                : value == Double.POSITIVE_INFINITY ? "exact" : String.format(Locale.ROOT, "%.5f", value);
    }

    /** How a run ends. */
    static ExitCode exitCode(List<Gates.Result> results) {
        return results.stream().allMatch(Gates.Result::passed) ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }
}
