package dev.octet.cli;

import dev.octet.pipeline.Gates;
import java.util.List;
import java.util.Locale;
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
        return Gates.parse(arguments.texts(option), measures, example);
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
