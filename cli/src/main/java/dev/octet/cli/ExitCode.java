package dev.octet.cli;

/** What the process tells its caller: the table of exit codes. */
public enum ExitCode {
    /** Done. */
    OK(0),
    /** A check ran and failed: an evaluation below its gate. */
    CHECK_FAILED(1),
    /** Wrong usage: an unknown verb, option, recipe, target; a pattern that matches nothing. */
    USAGE(2),
    /** Malformed, unsupported or inconsistent input. */
    INPUT(3),
    /** Input or output failed: no space, no permission, a file that is not there. Nothing half-written is left under a final name. */
    IO(4),
    /** A device, a native library or memory that is needed is not available. */
    UNAVAILABLE(5),
    /** A bug in Octet. */
    BUG(70);

    private final int number;

    ExitCode(int number) {
        this.number = number;
    }

    /** The number handed to the operating system, 0 to 255. */
    public int number() {
        return number;
    }
}
