package dev.octet.converter.jinja;

import dev.octet.converter.jinja.Expression.Arguments;
import dev.octet.converter.jinja.Statement.Branch;
import dev.octet.converter.jinja.Statement.Parameter;
import dev.octet.converter.jinja.Token.Kind;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** Statements and expressions of tokens, with the precedences of jinja2.parser. */
final class Parser {
    private static final int DEEPEST = 200;
    private static final Set<String> COMPARISONS = Set.of("==", "!=", "<", "<=", ">", ">=");
    private static final Set<String> NO_ARGUMENT = Set.of("else", "or", "and", "is", "if", "in", "not");

    private final List<Token> tokens;
    private int at;
    private int depth;

    private Parser(List<Token> tokens) {
        this.tokens = tokens;
    }

    static List<Statement> parse(String template) {
        Parser parser = new Parser(Lexer.tokens(template));
        List<Statement> body = parser.body(Set.of());
        if (parser.peek().kind() != Kind.END) {
            throw parser.unexpected();
        }
        return body;
    }

    private Token peek() {
        return tokens.get(at);
    }

    private Token next() {
        Token t = tokens.get(at);
        at += t.kind() == Kind.END ? 0 : 1;
        return t;
    }

    private boolean skipOperator(String operator) {
        boolean there = peek().isOperator(operator);
        at += there ? 1 : 0;
        return there;
    }

    private boolean skipName(String name) {
        boolean there = peek().isName(name);
        at += there ? 1 : 0;
        return there;
    }

    private JinjaException unexpected() {
        return new JinjaException("unexpected " + peek()).atLine(peek().line());
    }

    private void expectOperator(String operator) {
        if (!skipOperator(operator)) {
            throw new JinjaException("expected '" + operator + "', found " + peek()).atLine(peek().line());
        }
    }

    private String name() {
        if (peek().kind() != Kind.NAME) {
            throw new JinjaException("expected a name, found " + peek()).atLine(peek().line());
        }
        return next().text();
    }

    private void endOfBlock() {
        if (peek().kind() != Kind.BLOCK_END) {
            throw unexpected();
        }
        next();
    }

    private void descend() {
        if (++depth > DEEPEST) {
            throw new JinjaException("nested more than " + DEEPEST + " deep").atLine(peek().line());
        }
    }

    /** Statements up to a block that begins with one of {@code ends}, which stays with its name next. */
    private List<Statement> body(Set<String> ends) {
        descend();
        List<Statement> body = new ArrayList<>();
        while (true) {
            Token t = peek();
            switch (t.kind()) {
                case DATA -> body.add(new Statement.Text(t.line(), next().text()));
                case VARIABLE_BEGIN -> {
                    next();
                    body.add(new Statement.Output(t.line(), tuple()));
                    if (next().kind() != Kind.VARIABLE_END) {
                        at--;
                        throw unexpected();
                    }
                }
                case BLOCK_BEGIN -> {
                    next();
                    if (peek().kind() == Kind.NAME && ends.contains(peek().text())) {
                        depth--;
                        return body;
                    }
                    body.add(statement());
                }
                case END -> {
                    if (!ends.isEmpty()) {
                        throw new JinjaException("the template ends, expected one of "
                                        + ends.stream().sorted().toList())
                                .atLine(t.line());
                    }
                    depth--;
                    return body;
                }
                default -> throw unexpected();
            }
        }
    }

    /** A body with its end. */
    private List<Statement> block(String end) {
        endOfBlock();
        List<Statement> body = body(Set.of(end));
        next();
        endOfBlock();
        return body;
    }

    private Statement statement() {
        int line = peek().line();
        String name = name();
        return switch (name) {
            case "if" -> conditional(line);
            case "for" -> loop(line);
            case "set" -> assignment(line);
            case "macro" -> {
                String macro = name();
                List<Parameter> parameters = parameters();
                yield new Statement.Macro(line, macro, parameters, block("endmacro"));
            }
            case "call" -> {
                List<Parameter> parameters = peek().isOperator("(") ? parameters() : List.of();
                if (!(expression() instanceof Expression.Call call)) {
                    throw new JinjaException("expected a call").atLine(line);
                }
                yield new Statement.CallBlock(line, parameters, call, block("endcall"));
            }
            case "filter" -> {
                List<Expression.Filter> filters = new ArrayList<>(List.of(filter(Optional.empty())));
                filters.addAll(filters());
                yield new Statement.FilterBlock(line, filters, block("endfilter"));
            }
            case "with" -> {
                List<String> names = new ArrayList<>();
                List<Expression> values = new ArrayList<>();
                while (peek().kind() != Kind.BLOCK_END) {
                    if (!names.isEmpty()) {
                        expectOperator(",");
                    }
                    names.add(name());
                    expectOperator("=");
                    values.add(expression());
                }
                yield new Statement.With(line, names, values, block("endwith"));
            }
            case "generation" -> new Statement.Generation(line, block("endgeneration"));
            case "break", "continue" -> {
                endOfBlock();
                yield new Statement.Jump(line, name.equals("break"));
            }
            default -> throw new JinjaException("there is no statement '" + name + "' in a chat template").atLine(line);
        };
    }

    private Statement conditional(int line) {
        List<Branch> branches = new ArrayList<>();
        List<Statement> otherwise = List.of();
        while (true) {
            Expression condition = tuple();
            endOfBlock();
            branches.add(new Branch(condition, body(Set.of("elif", "else", "endif"))));
            String end = next().text();
            if (end.equals("elif")) {
                continue;
            }
            if (end.equals("else")) {
                otherwise = block("endif");
            } else {
                endOfBlock();
            }
            return new Statement.If(line, branches, otherwise);
        }
    }

    private Statement loop(int line) {
        List<String> targets = targets();
        if (!skipName("in")) {
            throw unexpected();
        }
        Expression of = tuple(false);
        Optional<Expression> condition = skipName("if") ? Optional.of(expression()) : Optional.empty();
        boolean recursive = skipName("recursive");
        endOfBlock();
        List<Statement> body = body(Set.of("else", "endfor"));
        List<Statement> otherwise = List.of();
        if (next().text().equals("else")) {
            otherwise = block("endfor");
        } else {
            endOfBlock();
        }
        return new Statement.For(line, targets, of, condition, recursive, body, otherwise);
    }

    private List<String> targets() {
        List<String> targets = new ArrayList<>();
        boolean parentheses = skipOperator("(");
        do {
            if (!targets.isEmpty() && peek().kind() != Kind.NAME) {
                break;
            }
            targets.add(name());
        } while (skipOperator(","));
        if (parentheses) {
            expectOperator(")");
        }
        return targets;
    }

    private Statement assignment(int line) {
        List<String> targets = targets();
        Optional<String> attribute = targets.size() == 1 && skipOperator(".") ? Optional.of(name()) : Optional.empty();
        if (skipOperator("=")) {
            Expression value = tuple();
            endOfBlock();
            return new Statement.Set(line, targets, attribute, value);
        }
        if (targets.size() != 1) {
            throw unexpected();
        }
        List<Expression.Filter> filters = filters();
        return new Statement.SetBlock(line, targets.getFirst(), attribute, filters, block("endset"));
    }

    private List<Expression.Filter> filters() {
        List<Expression.Filter> filters = new ArrayList<>();
        while (skipOperator("|")) {
            filters.add(filter(Optional.empty()));
        }
        return filters;
    }

    private List<Parameter> parameters() {
        List<Parameter> parameters = new ArrayList<>();
        expectOperator("(");
        while (!peek().isOperator(")")) {
            if (!parameters.isEmpty()) {
                expectOperator(",");
            }
            String name = name();
            parameters.add(new Parameter(name, skipOperator("=") ? Optional.of(expression()) : Optional.empty()));
        }
        next();
        return parameters;
    }

    /** Expressions with commas between them are a tuple. */
    private Expression tuple() {
        return tuple(true);
    }

    private Expression tuple(boolean withConditional) {
        Expression first = withConditional ? expression() : or();
        if (!peek().isOperator(",")) {
            return first;
        }
        List<Expression> elements = new ArrayList<>(List.of(first));
        while (skipOperator(",")) {
            Token t = peek();
            if (t.kind() == Kind.VARIABLE_END || t.kind() == Kind.BLOCK_END || t.isOperator(")")) {
                break;
            }
            elements.add(withConditional ? expression() : or());
        }
        return new Expression.Sequence(elements, true);
    }

    private Expression expression() {
        descend();
        Expression e = or();
        while (skipName("if")) {
            Expression condition = or();
            Optional<Expression> otherwise = skipName("else") ? Optional.of(expression()) : Optional.empty();
            e = new Expression.Conditional(e, condition, otherwise);
        }
        depth--;
        return e;
    }

    private Expression or() {
        Expression e = and();
        while (skipName("or")) {
            e = new Expression.Logic(e, and(), false);
        }
        return e;
    }

    private Expression and() {
        Expression e = not();
        while (skipName("and")) {
            e = new Expression.Logic(e, not(), true);
        }
        return e;
    }

    private Expression not() {
        if (!skipName("not")) {
            return comparison();
        }
        descend();
        Expression e = new Expression.Not(not());
        depth--;
        return e;
    }

    private Expression comparison() {
        Expression first = sum();
        List<String> operators = new ArrayList<>();
        List<Expression> operands = new ArrayList<>();
        while (true) {
            Token t = peek();
            if (t.kind() == Kind.OPERATOR && COMPARISONS.contains(t.text())) {
                operators.add(next().text());
            } else if (skipName("in")) {
                operators.add("in");
            } else if (t.isName("not") && tokens.get(at + 1).isName("in")) {
                at += 2;
                operators.add("not in");
            } else {
                break;
            }
            operands.add(sum());
        }
        return operators.isEmpty() ? first : new Expression.Comparison(first, operators, operands);
    }

    private Expression sum() {
        Expression e = concatenation();
        while (peek().isOperator("+") || peek().isOperator("-")) {
            e = new Expression.Binary(next().text(), e, concatenation());
        }
        return e;
    }

    private Expression concatenation() {
        Expression e = product();
        while (skipOperator("~")) {
            e = new Expression.Binary("~", e, product());
        }
        return e;
    }

    private Expression product() {
        Expression e = power();
        while (peek().isOperator("*") || peek().isOperator("/") || peek().isOperator("//") || peek().isOperator("%")) {
            e = new Expression.Binary(next().text(), e, power());
        }
        return e;
    }

    private Expression power() {
        Expression e = unary(true);
        while (skipOperator("**")) {
            e = new Expression.Binary("**", e, unary(true));
        }
        return e;
    }

    private Expression unary(boolean withFilters) {
        descend();
        boolean signed = peek().isOperator("-") || peek().isOperator("+");
        Expression e = signed ? new Expression.Sign(next().isOperator("-"), unary(false)) : postfix(primary());
        depth--;
        return withFilters ? filtered(e) : e;
    }

    private Expression primary() {
        Token t = next();
        switch (t.kind()) {
            case NAME -> {
                return switch (t.text()) {
                    case "true", "True" -> new Expression.Constant(true);
                    case "false", "False" -> new Expression.Constant(false);
                    case "none", "None" -> new Expression.Constant(null);
                    default -> new Expression.Name(t.text());
                };
            }
            case STRING -> {
                StringBuilder text = new StringBuilder(t.text());
                while (peek().kind() == Kind.STRING) {
                    text.append(next().text());
                }
                return new Expression.Constant(text.toString());
            }
            case INTEGER -> {
                return new Expression.Constant(integer(t.text()));
            }
            case FLOAT -> {
                return new Expression.Constant(Double.parseDouble(t.text()));
            }
            case OPERATOR -> {
                switch (t.text()) {
                    case "(" -> {
                        if (skipOperator(")")) {
                            return new Expression.Sequence(List.of(), true);
                        }
                        Expression e = tuple();
                        expectOperator(")");
                        return e;
                    }
                    case "[" -> {
                        return new Expression.Sequence(elements("]"), false);
                    }
                    case "{" -> {
                        return dictionary();
                    }
                    default -> {}
                }
            }
            default -> {}
        }
        at -= t.kind() == Kind.END ? 0 : 1;
        throw unexpected();
    }

    private static Object integer(String text) {
        boolean prefixed = text.length() > 1 && text.charAt(0) == '0' && Character.isLetter(text.charAt(1));
        int radix = !prefixed ? 10 : text.charAt(1) == 'x' ? 16 : text.charAt(1) == 'o' ? 8 : 2;
        return Arithmetic.integer(new BigInteger(prefixed ? text.substring(2) : text, radix));
    }

    private List<Expression> elements(String end) {
        List<Expression> elements = new ArrayList<>();
        while (!skipOperator(end)) {
            if (!elements.isEmpty()) {
                expectOperator(",");
                if (skipOperator(end)) {
                    break;
                }
            }
            elements.add(expression());
        }
        return elements;
    }

    private Expression dictionary() {
        List<Expression> keys = new ArrayList<>();
        List<Expression> values = new ArrayList<>();
        while (!skipOperator("}")) {
            if (!keys.isEmpty()) {
                expectOperator(",");
                if (skipOperator("}")) {
                    break;
                }
            }
            keys.add(expression());
            expectOperator(":");
            values.add(expression());
        }
        return new Expression.Dictionary(keys, values);
    }

    private Expression postfix(Expression start) {
        Expression e = start;
        while (true) {
            if (skipOperator(".")) {
                Token t = next();
                if (t.kind() == Kind.NAME) {
                    e = new Expression.Attribute(e, t.text());
                } else if (t.kind() == Kind.INTEGER) {
                    e = new Expression.Item(e, new Expression.Constant(integer(t.text())));
                } else {
                    at--;
                    throw unexpected();
                }
            } else if (skipOperator("[")) {
                e = subscript(e);
            } else if (peek().isOperator("(")) {
                e = new Expression.Call(e, arguments());
            } else {
                return e;
            }
        }
    }

    private Expression subscript(Expression of) {
        Optional<Expression> from = peek().isOperator(":") ? Optional.empty() : Optional.of(expression());
        if (!skipOperator(":")) {
            expectOperator("]");
            return new Expression.Item(of, from.orElseThrow(this::unexpected));
        }
        Optional<Expression> to = bound();
        Optional<Expression> step = skipOperator(":") ? bound() : Optional.empty();
        expectOperator("]");
        return new Expression.Slice(of, from, to, step);
    }

    private Optional<Expression> bound() {
        boolean open = peek().isOperator(":") || peek().isOperator("]");
        return open ? Optional.empty() : Optional.of(expression());
    }

    private Arguments arguments() {
        expectOperator("(");
        List<Expression> positional = new ArrayList<>();
        Map<String, Expression> named = new LinkedHashMap<>();
        boolean first = true;
        while (!skipOperator(")")) {
            if (!first) {
                expectOperator(",");
                if (skipOperator(")")) {
                    break;
                }
            }
            first = false;
            if (peek().kind() == Kind.NAME && tokens.get(at + 1).isOperator("=")) {
                String name = name();
                next();
                named.put(name, expression());
            } else if (named.isEmpty()) {
                positional.add(expression());
            } else {
                throw unexpected();
            }
        }
        return new Arguments(positional, named);
    }

    private Expression filtered(Expression start) {
        Expression e = start;
        while (true) {
            if (skipOperator("|")) {
                e = filter(Optional.of(e));
            } else if (skipName("is")) {
                e = test(e);
            } else if (peek().isOperator("(")) {
                e = new Expression.Call(e, arguments());
            } else {
                return e;
            }
        }
    }

    private Expression.Filter filter(Optional<Expression> of) {
        int line = peek().line();
        String name = name();
        if (!Filters.has(name)) {
            throw new JinjaException("there is no filter '" + name + "'").atLine(line);
        }
        return new Expression.Filter(of, name, peek().isOperator("(") ? arguments() : Arguments.NONE);
    }

    private Expression test(Expression of) {
        boolean negated = skipName("not");
        int line = peek().line();
        String name = name();
        if (!Tests.has(name)) {
            throw new JinjaException("there is no test '" + name + "'").atLine(line);
        }
        Arguments arguments = Arguments.NONE;
        Token t = peek();
        boolean operand = switch (t.kind()) {
            case NAME -> !NO_ARGUMENT.contains(t.text());
            case STRING, INTEGER, FLOAT -> true;
            case OPERATOR -> t.text().equals("[") || t.text().equals("{");
            default -> false;
        };
        if (t.isOperator("(")) {
            arguments = arguments();
        } else if (operand) {
            arguments = new Arguments(List.of(postfix(primary())), Map.of());
        }
        Expression test = new Expression.Test(of, name, arguments);
        return negated ? new Expression.Not(test) : test;
    }
}
