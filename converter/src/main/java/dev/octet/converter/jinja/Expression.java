package dev.octet.converter.jinja;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** An expression of Jinja's grammar. */
sealed interface Expression {
    /** A literal; null is Python's None. */
    record Constant(@Nullable Object value) implements Expression {}

    /** A variable. */
    record Name(String name) implements Expression {}

    /** A list, or a tuple. */
    record Sequence(List<Expression> elements, boolean tuple) implements Expression {}

    /** A dictionary. */
    record Dictionary(List<Expression> keys, List<Expression> values) implements Expression {}

    /** {@code of.name}. */
    record Attribute(Expression of, String name) implements Expression {}

    /** {@code of[key]}. */
    record Item(Expression of, Expression key) implements Expression {}

    /** {@code of[from:to:step]}. */
    record Slice(Expression of, Optional<Expression> from, Optional<Expression> to, Optional<Expression> step)
            implements Expression {}

    /** Arguments in parentheses. */
    record Arguments(List<Expression> positional, Map<String, Expression> named) {
        static final Arguments NONE = new Arguments(List.of(), Map.of());
    }

    /** {@code function(arguments)}. */
    record Call(Expression function, Arguments arguments) implements Expression {}

    /** {@code of | name(arguments)}; without {@code of} in a filter block. */
    record Filter(Optional<Expression> of, String name, Arguments arguments) implements Expression {}

    /** {@code of is name(arguments)}. */
    record Test(Expression of, String name, Arguments arguments) implements Expression {}

    /** {@code -of} or {@code +of}. */
    record Sign(boolean negative, Expression of) implements Expression {}

    /** {@code not of}. */
    record Not(Expression of) implements Expression {}

    /** {@code left and right}, {@code left or right}. */
    record Logic(Expression left, Expression right, boolean and) implements Expression {}

    /** {@code left operator right}, arithmetic and {@code ~}. */
    record Binary(String operator, Expression left, Expression right) implements Expression {}

    /** {@code first operator operand operator operand...}. */
    record Comparison(Expression first, List<String> operators, List<Expression> operands) implements Expression {}

    /** {@code then if condition else otherwise}. */
    record Conditional(Expression then, Expression condition, Optional<Expression> otherwise) implements Expression {}
}
