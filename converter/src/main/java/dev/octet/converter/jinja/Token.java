package dev.octet.converter.jinja;

/**
 * A token of a template.
 *
 * @param text of a string, its value after escapes
 * @param line from 1
 */
record Token(Kind kind, String text, int line) {
    /** Kinds of tokens. */
    enum Kind {
        DATA,
        VARIABLE_BEGIN,
        VARIABLE_END,
        BLOCK_BEGIN,
        BLOCK_END,
        NAME,
        STRING,
        INTEGER,
        FLOAT,
        OPERATOR,
        END
    }

    boolean is(Kind kind, String text) {
        return this.kind == kind && this.text.equals(text);
    }

    boolean isName(String name) {
        return is(Kind.NAME, name);
    }

    boolean isOperator(String operator) {
        return is(Kind.OPERATOR, operator);
    }

    @Override
    public String toString() {
        return kind == Kind.END ? "the end of the template" : "'" + text + "'";
    }
}
