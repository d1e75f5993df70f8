package dev.octet.cli;

import java.io.PrintStream;
import java.util.function.Supplier;

/**
 * Where a run writes.
 *
 * @param out results, and nothing else
 * @param err errors, logs and progress
 * @param terminal whether {@code err} is a terminal that a bar can be drawn on
 * @param debug the value of OCTET_DEBUG: 0 when unset; from 1 on, errors come with their stack trace
 */
public record Screen(PrintStream out, PrintStream err, boolean terminal, int debug) {
    /** Prints what a verb answers: as JSON where {@code --json} asks for it, else the page, which ends its last line. */
    void answer(Arguments arguments, Object answer, Supplier<String> page) {
        out.print(arguments.has(Flags.JSON) ? Json.page(answer) + "\n" : page.get());
    }
}
