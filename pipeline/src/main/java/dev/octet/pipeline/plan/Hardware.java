package dev.octet.pipeline.plan;

import dev.octet.formats.error.InvalidOptionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Equal accelerators that train together.
 *
 * @param count how many
 */
public record Hardware(int count, Accelerator accelerator) {
    private static final Pattern TEXT = Pattern.compile("(?:(\\d{1,6})[xX*])?(.+)");

    /** Checks the count. */
    public Hardware {
        if (count < 1) {
            throw new IllegalArgumentException(count + " accelerators");
        }
    }

    /**
     * Reads {@code 64xH100}, or {@code H100} for one.
     *
     * @param where for messages
     * @throws InvalidOptionException for an unknown name, or a count of 0
     */
    public static Hardware parse(String text, String where) {
        Matcher m = TEXT.matcher(text.strip());
        if (!m.matches()
                || "0".repeat(m.group(1) == null ? 0 : m.group(1).length()).equals(m.group(1))) {
            throw new InvalidOptionException(
                    "the hardware '" + text + "' is not a number and a name", where, "write it as 64xH100, or this");
        }
        int count = m.group(1) == null ? 1 : Integer.parseInt(m.group(1));
        return new Hardware(count, Accelerator.named(m.group(2), where));
    }

    /** Another number of the same. */
    public Hardware times(int other) {
        return new Hardware(other, accelerator);
    }

    /** {@code 64xH100}; of one its name. */
    public String text() {
        return (count == 1 ? "" : count + "x") + accelerator.name();
    }

    /** Bytes a second that each of {@code group} accelerators side by side sends: those of one node have its link. */
    double rate(int group) {
        return group <= accelerator.node() ? accelerator.link() : accelerator.network();
    }
}
