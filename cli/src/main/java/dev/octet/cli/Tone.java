package dev.octet.cli;

/** What a piece of text means, shown as a colour where there is one. No text depends on its colour to be understood. */
enum Tone {
    /** Neither good nor bad. */
    PLAIN(""),
    /** The head of a column or a part of a page: bold. */
    HEADING("1"),
    /** A check passed: green. */
    GOOD("32"),
    /** A check or the whole run failed: bold red. */
    BAD("1;31"),
    /** Worth a look, not wrong: yellow. */
    CAREFUL("33");

    private final String code;

    Tone(String code) {
        this.code = code;
    }

    /** {@code text} between the escape sequences of ECMA-48, Select Graphic Rendition. */
    String paint(String text) {
        return code.isEmpty() || text.isEmpty() ? text : "\u001b[" + code + "m" + text + "\u001b[0m";
    }
}
