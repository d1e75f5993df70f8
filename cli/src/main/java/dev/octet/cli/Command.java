package dev.octet.cli;

import java.io.IOException;
import java.util.List;
import org.apache.commons.cli.Option;

/** One verb: parses its arguments, calls one public method of the library, prints the answer. Stateless. */
interface Command {
    /** The name of an operand that is the folder of a run. */
    String RUN = "RUN";

    /** What the user types: {@code inspect}. */
    String name();

    /** One line for the list of verbs. */
    String summary();

    /** Names of the arguments without a dash, in order, as shown in the usage line: {@code MODEL}. All are paths that are read, but for {@link #operandWords}. */
    List<String> operands();

    /** Whether the last operand may be given several times. */
    default boolean takesMore() {
        return false;
    }

    /** The words that the operand may be, for a verb whose operand is no path; empty for the others. */
    default List<String> operandWords() {
        return List.of();
    }

    /** Options of this verb in addition to those that every verb has; descriptions name the default. Those for paths are {@link PathOption}s. */
    List<Option> options();

    /** Two or more command lines that work as they stand. */
    List<String> examples();

    /** Checks the number of operands; a verb with a variable number does it itself. */
    default void checkOperands(Arguments arguments) {
        arguments.requireOperands();
    }

    /** Whether this command line writes what its options for outputs name. */
    default boolean writes(Arguments arguments) {
        return true;
    }

    /**
     * Does the work. What it writes is apart from what it reads ({@link Arguments#paths}).
     *
     * @throws dev.octet.formats.error.OctetException as the library does
     * @throws IOException when reading or writing fails
     */
    ExitCode run(Arguments arguments, Screen screen) throws IOException;
}
