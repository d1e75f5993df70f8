package dev.octet.trainer.dialect;

/** What becomes of a key of another library's configuration. */
public enum Fate {
    /** It means the same here and keeps its value. */
    APPLIED("applied"),
    /** It becomes other keys or values that do the same. */
    MAPPED("mapped"),
    /** Nothing that a run here computes depends on it. */
    NO_EFFECT("no effect"),
    /** It asks for what a run here does not do: a run with this file does not start. */
    REFUSED("refused");

    private final String text;

    Fate(String text) {
        this.text = text;
    }

    /** Its name, for people. */
    public String text() {
        return text;
    }
}
