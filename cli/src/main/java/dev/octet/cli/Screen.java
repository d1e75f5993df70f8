package dev.octet.cli;

import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Where a run writes.
 *
 * @param out results, and nothing else
 * @param err errors, logs and progress
 * @param outStyle how results are set
 * @param errStyle how the rest is set; when it is that of a terminal, bars can be drawn on {@code err}
 * @param debug the value of OCTET_DEBUG: 0 when unset; from 1 on, errors come with their stack trace
 */
public record Screen(PrintStream out, PrintStream err, TextStyle outStyle, TextStyle errStyle, int debug) {
    /** One without colours, whose results go into a file. */
    public Screen(PrintStream out, PrintStream err, boolean terminal, int debug) {
        this(out, err, TextStyle.PLAIN, terminal ? TextStyle.terminal(80) : TextStyle.PLAIN, debug);
    }

    /** Whether {@code err} is a terminal that a bar can be drawn on. */
    public boolean terminal() {
        return errStyle.isTerminal();
    }

    /** This screen with colours as asked for. */
    Screen with(Color color) {
        return new Screen(out, err, outStyle.with(color), errStyle.with(color), debug);
    }

    /** This screen with results set for programs: lines as they come, no colours. */
    Screen forPrograms() {
        return new Screen(out, err, TextStyle.PLAIN, errStyle, debug);
    }

    /** This screen with lines that are too long for its terminals broken on their way there; to be flushed at the end. */
    Screen folded() {
        return new Screen(FoldedOutput.to(out, outStyle), FoldedOutput.to(err, errStyle), outStyle, errStyle, debug);
    }

    /** Says where a report was written, after the page of an answer; nothing where there is none, or JSON is asked for. */
    void report(Arguments arguments, Optional<Path> file) {
        if (!arguments.has(Flags.JSON)) {
            file.ifPresent(f -> out.println("report: " + Printable.of(f.toString())));
        }
    }

    /** Prints what a verb answers: as JSON where {@code --json} asks for it, else the page, which ends its last line. */
    void answer(Arguments arguments, Object answer, Supplier<String> page) {
        if (arguments.has(Flags.JSON)) {
            out.println(Json.answer(arguments.verb(), answer));
        } else {
            out.print(outStyle.page(page::get));
        }
    }
}
