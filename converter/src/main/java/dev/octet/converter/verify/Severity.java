package dev.octet.converter.verify;

import java.util.Locale;

/** How bad a finding is, worst first. */
public enum Severity {
    /** A consumer refuses the model, or reads it wrong without saying so. */
    ERROR,
    /** It works with some versions or settings only, or loses accuracy. */
    WARNING,
    /** It works and could be better. */
    ADVICE;

    /** As printed: {@code error}. */
    public String text() {
        return name().toLowerCase(Locale.ROOT);
    }
}
