package dev.octet.cli;

import java.util.Locale;

/** Text from files on its way to a terminal. */
final class Printable {
    private Printable() {}

    /** Control characters written out, so that a name in a hostile file cannot steer the terminal. */
    static String of(String text) {
        StringBuilder line = new StringBuilder(text.length());
        text.codePoints().forEach(c -> {
            if (Character.isISOControl(c)) {
                line.append(String.format(Locale.ROOT, "\\u%04x", c));
            } else {
                line.appendCodePoint(c);
            }
        });
        return line.toString();
    }
}
