package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;
import java.math.BigDecimal;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Numbers of bytes as people write them: {@code 4GB} is 4 000 000 000, {@code 4GiB} is 4 294 967 296, {@code 4096} is bytes. */
final class ByteSize {
    private static final Pattern WRITTEN = Pattern.compile("(\\d{1,15}(?:\\.\\d{1,9})?)\\s*([A-Za-z]*)");
    private static final Map<String, Long> UNITS = Map.of(
            "",
            1L,
            "b",
            1L,
            "kb",
            1_000L,
            "mb",
            1_000_000L,
            "gb",
            1_000_000_000L,
            "tb",
            1_000_000_000_000L,
            "kib",
            1L << 10,
            "mib",
            1L << 20,
            "gib",
            1L << 30,
            "tib",
            1L << 40);

    private ByteSize() {}

    /**
     * Reads a size above 0.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when the text is no size
     */
    static long read(Section s, String key) {
        String text = s.requiredText(key);
        Matcher m = WRITTEN.matcher(text);
        Long unit = m.matches() ? UNITS.get(m.group(2).toLowerCase(Locale.ROOT)) : null;
        BigDecimal bytes =
                unit == null ? BigDecimal.ZERO : new BigDecimal(m.group(1)).multiply(BigDecimal.valueOf(unit));
        if (bytes.compareTo(BigDecimal.ONE) < 0 || bytes.compareTo(BigDecimal.valueOf(Long.MAX_VALUE)) > 0) {
            throw s.error(key, "'" + text + "' is not a size in bytes", "write it as 4GB, 512MB or 1.5GiB");
        }
        return bytes.longValue();
    }
}
