package dev.octet.converter.jinja;

import java.util.List;
import java.util.Optional;

/** A part of a template. */
sealed interface Statement {
    /** Line in the template, from 1. */
    int line();

    /** Text as it stands. */
    record Text(int line, String text) implements Statement {}

    /** An expression in double braces, which is written. */
    record Output(int line, Expression expression) implements Statement {}

    /** A branch of {@link If}. */
    record Branch(Expression condition, List<Statement> body) {}

    /** {@code if}, {@code elif}, {@code else}. */
    record If(int line, List<Branch> branches, List<Statement> otherwise) implements Statement {}

    /** {@code for targets in of if condition}. */
    record For(
            int line,
            List<String> targets,
            Expression of,
            Optional<Expression> condition,
            boolean recursive,
            List<Statement> body,
            List<Statement> otherwise)
            implements Statement {}

    /** {@code set}: of variables, or of an attribute of a namespace where it is named. */
    record Set(int line, List<String> targets, Optional<String> attribute, Expression value) implements Statement {}

    /** {@code set} of what a block renders, through filters. */
    record SetBlock(
            int line, String target, Optional<String> attribute, List<Expression.Filter> filters, List<Statement> body)
            implements Statement {}

    /** A parameter of a macro. */
    record Parameter(String name, Optional<Expression> otherwise) {}

    /** {@code macro}. */
    record Macro(int line, String name, List<Parameter> parameters, List<Statement> body) implements Statement {}

    /** {@code call}: a macro is called with a block as its {@code caller}. */
    record CallBlock(int line, List<Parameter> parameters, Expression.Call call, List<Statement> body)
            implements Statement {}

    /** A block through filters. */
    record FilterBlock(int line, List<Expression.Filter> filters, List<Statement> body) implements Statement {}

    /** {@code with}: variables for a block. */
    record With(int line, List<String> names, List<Expression> values, List<Statement> body) implements Statement {}

    /** {@code generation}: what the assistant writes. */
    record Generation(int line, List<Statement> body) implements Statement {}

    /** {@code break} or {@code continue}. */
    record Jump(int line, boolean leaves) implements Statement {}
}
