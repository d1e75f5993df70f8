package dev.octet.cli;

import java.util.List;
import java.util.Locale;
import java.util.Set;

/** Quantities as people read them: three or four digits, in powers of 1000, with the unit. Programs get plain numbers ({@link Json}). */
final class Quantity {
    private static final List<String> PREFIXES = List.of("", "k", "M", "G", "T", "P", "E");

    /** Units whose counts run into millions; samples, tensors and steps are counted out. */
    private static final Set<String> LARGE = Set.of("elements", "tokens");

    private static final String BYTES = "bytes";
    private static final int MINUTE = 60;
    private static final int HOUR = 3600;
    private static final int DAY = 86_400;

    private Quantity() {}

    /** {@code n} bytes, as disks and file managers count them: {@code 505.4 MB}. */
    static String bytes(long n) {
        return n < 1000 ? n + " B" : scaled((double) n) + "B";
    }

    /** {@code n} of a unit in the plural: {@code 505.4 MB}, {@code 252.7 M elements}, {@code 1,250 samples}. */
    static String of(long n, String unit) {
        if (unit.equals(BYTES)) {
            return bytes(n);
        }
        return LARGE.contains(unit) && n >= 10_000
                ? scaled((double) n) + " " + unit
                : String.format(Locale.ROOT, "%,d %s", n, unit);
    }

    /** {@code done} of {@code total}, the unit named once: {@code 4.2 M of 252.7 M elements}. */
    static String share(long done, long total, String unit) {
        String all = of(total, unit);
        String part = of(done, unit);
        return unit.equals(BYTES)
                ? part + " of " + all
                : part.substring(0, part.length() - unit.length() - 1) + " of " + all;
    }

    /** How fast something goes, in three digits: {@code 280 MB/s}, {@code 1.36 M elements/s}, {@code 12.5 samples/s}. */
    static String rate(double perSecond, String unit) {
        Scaled rate = Scaled.of(perSecond);
        String format = rate.value() >= 99.95 ? "%.0f" : rate.value() >= 9.995 ? "%.1f" : "%.2f";
        String number = String.format(Locale.ROOT, format, rate.value()) + " " + rate.prefix();
        return unit.equals(BYTES) ? number + "B/s" : number + (rate.prefix().isEmpty() ? "" : " ") + unit + "/s";
    }

    /** A number of 1000 or more with its prefix: {@code 252.7 M}. */
    private static String scaled(double n) {
        Scaled scaled = Scaled.of(n);
        return String.format(Locale.ROOT, "%.1f %s", scaled.value(), scaled.prefix());
    }

    /** A number between 1 and 1000 of thousands, millions and so on, or less than 1 of ones. */
    private record Scaled(double value, String prefix) {
        static Scaled of(double n) {
            double value = n;
            int prefix = 0;
            while (value >= 999.95 && prefix + 1 < PREFIXES.size()) {
                value /= 1000;
                prefix++;
            }
            return new Scaled(value, PREFIXES.get(prefix));
        }
    }

    /** A time that something took: {@code 0.4 s}, {@code 95.0 s}. */
    static String seconds(double seconds) {
        return String.format(Locale.ROOT, "%.1f s", seconds);
    }

    /** A time that something will take, rounded up: {@code 4 s}, {@code 3 min 20 s}, {@code 2 h 5 min}, {@code 3 d 4 h}. */
    static String remaining(double seconds) {
        long s = (long) Math.ceil(seconds);
        if (s < MINUTE) {
            return s + " s";
        }
        if (s < HOUR) {
            return s / MINUTE + " min " + s % MINUTE + " s";
        }
        return s < DAY ? s / HOUR + " h " + s % HOUR / MINUTE + " min" : s / DAY + " d " + s % DAY / HOUR + " h";
    }
}
