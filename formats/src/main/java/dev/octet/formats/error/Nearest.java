package dev.octet.formats.error;

import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** Suggests valid names for a mistyped name. */
public final class Nearest {
    private static final int SHOWN = 3;

    private Nearest() {}

    /** Up to three of {@code valid} with a small edit distance to {@code typed}, in any case, nearest first; empty when none is near. */
    public static List<String> names(String typed, Collection<String> valid) {
        String wanted = typed.toLowerCase(Locale.ROOT);
        // a third of the letters may be wrong: covers typing errors, but not other words
        int limit = limit(wanted);
        return valid.stream()
                .filter(v -> near(wanted, v.toLowerCase(Locale.ROOT), limit))
                .sorted(Comparator.<String>comparingInt(v -> distance(wanted, v.toLowerCase(Locale.ROOT)))
                        .thenComparing(v -> v))
                .limit(SHOWN)
                .toList();
    }

    /** A sentence for the line {@code fix:}: the nearest names, or all of them when none is near. */
    public static String advice(String typed, Collection<String> valid) {
        List<String> near = names(typed, valid);
        return near.isEmpty()
                ? "valid: " + valid.stream().sorted().collect(Collectors.joining(", "))
                : "did you mean " + String.join(", ", near) + "?";
    }

    private static boolean near(String typed, String valid, int limit) {
        boolean begins = typed.length() >= 3 && valid.startsWith(typed);
        return begins || distance(typed, valid) <= Math.min(limit, limit(valid));
    }

    private static int limit(String word) {
        return Math.max(1, word.length() / 3);
    }

    /** Insertions, deletions, replacements and swaps of neighbours that turn {@code a} into {@code b}. */
    static int distance(String a, String b) {
        int[] before = new int[b.length() + 1];
        int[] last = new int[b.length() + 1];
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            last[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int replaced = last[j - 1] + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                row[j] = Math.min(replaced, Math.min(last[j], row[j - 1]) + 1);
                if (i > 1 && j > 1 && a.charAt(i - 1) == b.charAt(j - 2) && a.charAt(i - 2) == b.charAt(j - 1)) {
                    row[j] = Math.min(row[j], before[j - 2] + 1);
                }
            }
            int[] reused = before;
            before = last;
            last = row;
            row = reused;
        }
        return last[b.length()];
    }
}
