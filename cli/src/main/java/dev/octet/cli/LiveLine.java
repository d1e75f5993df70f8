package dev.octet.cli;

import java.io.PrintStream;

/** One line of a terminal that is rewritten in place. What else is printed there goes through {@link #above}. */
final class LiveLine {
    private final PrintStream out;
    private String shown = "";

    LiveLine(PrintStream out) {
        this.out = out;
    }

    /** Puts a text in the place of the line; it must be narrower than the terminal. */
    synchronized void show(String text) {
        // blanks instead of an escape sequence: consoles of every system know a carriage return
        out.print("\r" + text + " ".repeat(Math.max(0, shown.length() - text.length())));
        out.flush();
        shown = text;
    }

    /** Prints a line that stays; the rewritten one continues below it. */
    synchronized void above(String text) {
        if (shown.isEmpty()) {
            out.println(text);
            return;
        }
        out.println("\r" + " ".repeat(shown.length()) + "\r" + text);
        out.print(shown);
        out.flush();
    }

    /** Leaves the line as it is and begins the next. */
    synchronized void end() {
        if (!shown.isEmpty()) {
            out.println();
            shown = "";
        }
    }
}
