package dev.octet.converter.jinja;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Runs statements. */
final class Interpreter {
    /** Statements and operators of one rendering: a template of a chat takes some thousands. */
    static final long MAX_STEPS = 20_000_000;
    /** Characters of one rendering. */
    static final int MAX_OUTPUT = 1 << 26;
    /** Calls and loops within each other. */
    static final int MAX_DEPTH = 200;
    /** Numbers of a range, as in Jinja's sandbox. */
    static final int MAX_RANGE = 100_000;

    private final StringBuilder root = new StringBuilder();
    private final List<RenderedTemplate.Span> generated = new ArrayList<>();
    private StringBuilder output = root;
    private long steps;
    private int depth;

    /** Variables of a block, and those around it. */
    private record Scope(
            Map<String, @Nullable Object> variables,
            @Nullable Scope around) {
        Scope within() {
            return new Scope(new HashMap<>(), this);
        }

        @Nullable
        Object get(String name) {
            for (Scope s = this; s != null; s = s.around) {
                if (s.variables.containsKey(name)) {
                    return s.variables.get(name);
                }
            }
            return new Undefined("'" + name + "'");
        }
    }

    /** How a block ended. */
    private enum Flow {
        ON,
        BREAK,
        CONTINUE
    }

    private Interpreter() {}

    static RenderedTemplate render(List<Statement> template, Map<String, @Nullable Object> variables) {
        Interpreter interpreter = new Interpreter();
        Scope globals = new Scope(new HashMap<>(variables), null);
        interpreter.globals(globals);
        interpreter.run(template, globals.within());
        return new RenderedTemplate(interpreter.root.toString(), interpreter.generated);
    }

    private void globals(Scope scope) {
        function(scope, "namespace", (p, n) -> {
            Map<String, @Nullable Object> attributes = new LinkedHashMap<>();
            if (!p.isEmpty() && p.getFirst() instanceof Map<?, ?> map) {
                map.forEach((k, v) -> attributes.put(PythonText.of(k), v));
            }
            attributes.putAll(n);
            return Namespace.of(attributes);
        });
        function(scope, "dict", (p, n) -> {
            Map<@Nullable Object, @Nullable Object> made = new LinkedHashMap<>();
            if (!p.isEmpty() && p.getFirst() instanceof Map<?, ?> map) {
                made.putAll(map);
            }
            made.putAll(n);
            return made;
        });
        function(scope, "range", (p, n) -> range(new Given("range", p, n)));
        function(scope, "raise_exception", (p, n) -> {
            throw JinjaException.raisedBy(PythonText.of(new Given("raise_exception", p, n).required(0, "message")));
        });
    }

    private static void function(Scope scope, String name, Callee callee) {
        scope.variables.putIfAbsent(name, callee);
    }

    private static Object range(Given given) {
        boolean one = given.of("start", "stop", "step").positional().size() == 1;
        long start = one ? 0 : Arithmetic.index(given.required(0, "start"));
        long stop = Arithmetic.index(given.required(one ? 0 : 1, "stop"));
        long step = given.whole(2, "step", 1);
        if (step == 0) {
            throw new JinjaException("range: the step is 0");
        }
        List<@Nullable Object> numbers = new ArrayList<>();
        for (long i = start; step > 0 ? i < stop : i > stop; i += step) {
            if (numbers.size() == MAX_RANGE) {
                throw new JinjaException("range: more than " + MAX_RANGE + " numbers");
            }
            numbers.add(i);
        }
        return numbers;
    }

    private void step() {
        if (++steps > MAX_STEPS) {
            throw new JinjaException("the template takes more than " + MAX_STEPS + " steps");
        }
    }

    private void enter() {
        if (++depth > MAX_DEPTH) {
            throw new JinjaException("more than " + MAX_DEPTH + " calls and blocks within each other");
        }
    }

    private void write(String text) {
        if ((long) root.length() + output.length() + text.length() > MAX_OUTPUT) {
            throw new JinjaException("the text is longer than " + MAX_OUTPUT + " characters");
        }
        output.append(text);
    }

    private Flow run(List<Statement> body, Scope scope) {
        for (Statement s : body) {
            step();
            try {
                Flow flow = run(s, scope);
                if (flow != Flow.ON) {
                    return flow;
                }
            } catch (JinjaException e) {
                throw e.atLine(s.line());
            }
        }
        return Flow.ON;
    }

    private Flow run(Statement statement, Scope scope) {
        switch (statement) {
            case Statement.Text t -> write(t.text());
            case Statement.Output o -> write(PythonText.of(value(o.expression(), scope)));
            case Statement.If i -> {
                for (Statement.Branch b : i.branches()) {
                    if (PythonValues.truth(value(b.condition(), scope))) {
                        return run(b.body(), scope);
                    }
                }
                return run(i.otherwise(), scope);
            }
            case Statement.For f -> loop(f, value(f.of(), scope), scope, 0);
            case Statement.Set s -> assign(s, value(s.value(), scope), scope);
            case Statement.SetBlock s ->
                store(
                        s.target(),
                        s.attribute(),
                        filtered(captured(s.body(), scope.within()), s.filters(), scope),
                        scope);
            case Statement.Macro m -> scope.variables.put(m.name(), macro(m.name(), m.parameters(), m.body(), scope));
            case Statement.CallBlock c -> {
                Callee caller = macro("caller", c.parameters(), c.body(), scope);
                write(PythonText.of(call(c.call(), Optional.of(caller), scope)));
            }
            case Statement.FilterBlock f ->
                write(PythonText.of(filtered(captured(f.body(), scope.within()), f.filters(), scope)));
            case Statement.With w -> {
                Scope inner = scope.within();
                for (int i = 0; i < w.names().size(); i++) {
                    inner.variables.put(w.names().get(i), value(w.values().get(i), scope));
                }
                return run(w.body(), inner);
            }
            case Statement.Generation g -> generation(g, scope);
            case Statement.Jump j -> {
                return j.leaves() ? Flow.BREAK : Flow.CONTINUE;
            }
        }
        return Flow.ON;
    }

    private void generation(Statement.Generation block, Scope scope) {
        if (output != root) {
            throw new JinjaException("a generation block within a macro or a set block has no place in the text");
        }
        int from = root.length();
        run(block.body(), scope.within());
        generated.add(new RenderedTemplate.Span(from, root.length()));
    }

    private String captured(List<Statement> body, Scope scope) {
        StringBuilder before = output;
        StringBuilder captured = new StringBuilder();
        output = captured;
        enter();
        try {
            run(body, scope);
        } finally {
            output = before;
            depth--;
        }
        return captured.toString();
    }

    private @Nullable Object filtered(@Nullable Object start, List<Expression.Filter> filters, Scope scope) {
        Object value = start;
        for (Expression.Filter f : filters) {
            value = Filters.apply(value, given(f.name(), f.arguments(), scope));
        }
        return value;
    }

    private void assign(Statement.Set set, @Nullable Object value, Scope scope) {
        if (set.targets().size() == 1) {
            store(set.targets().getFirst(), set.attribute(), value, scope);
        } else {
            unpack(set.targets(), value, scope);
        }
    }

    private static void store(String target, Optional<String> attribute, @Nullable Object value, Scope scope) {
        if (attribute.isEmpty()) {
            scope.variables.put(target, value);
        } else if (scope.get(target) instanceof Namespace n) {
            n.attributes().put(attribute.get(), value);
        } else {
            throw new JinjaException("cannot assign an attribute of '" + target + "', which is not a namespace");
        }
    }

    private static void unpack(List<String> targets, @Nullable Object value, Scope scope) {
        List<@Nullable Object> parts = PythonValues.elements(value);
        if (parts.size() != targets.size()) {
            throw new JinjaException(parts.size() + " values for " + targets.size() + " variables");
        }
        for (int i = 0; i < parts.size(); i++) {
            scope.variables.put(targets.get(i), parts.get(i));
        }
    }

    private void loop(Statement.For loop, @Nullable Object of, Scope scope, int loopDepth) {
        List<@Nullable Object> all = PythonValues.elements(of);
        if (loop.condition().isPresent()) {
            List<@Nullable Object> kept = new ArrayList<>();
            for (Object e : all) {
                step();
                Scope inner = scope.within();
                bind(loop, e, inner);
                if (PythonValues.truth(value(loop.condition().get(), inner))) {
                    kept.add(e);
                }
            }
            all = kept;
        }
        if (all.isEmpty()) {
            run(loop.otherwise(), scope.within());
            return;
        }
        enter();
        LoopState state = new LoopState(all, loopDepth);
        for (int i = 0; i < all.size(); i++) {
            step();
            Scope inner = scope.within();
            state.index = i;
            inner.variables.put("loop", state);
            if (loop.recursive()) {
                state.again = (p, n) -> {
                    Given given = new Given("loop", p, n).of("iterable");
                    StringBuilder before = output;
                    output = new StringBuilder();
                    try {
                        loop(loop, given.required(0, "iterable"), scope, loopDepth + 1);
                        return output.toString();
                    } finally {
                        output = before;
                    }
                };
            }
            bind(loop, all.get(i), inner);
            if (run(loop.body(), inner) == Flow.BREAK) {
                break;
            }
        }
        depth--;
    }

    private static void bind(Statement.For loop, @Nullable Object element, Scope scope) {
        if (loop.targets().size() == 1) {
            scope.variables.put(loop.targets().getFirst(), element);
        } else {
            unpack(loop.targets(), element, scope);
        }
    }

    /** The variable {@code loop}. */
    private static final class LoopState implements Callee {
        private final List<@Nullable Object> all;
        private final int depth;
        private int index;
        private @Nullable Object changed = new Undefined("nothing");
        private @Nullable Callee again;

        LoopState(List<@Nullable Object> all, int depth) {
            this.all = all;
            this.depth = depth;
        }

        @Override
        public @Nullable Object call(List<@Nullable Object> positional, Map<String, @Nullable Object> named) {
            if (again == null) {
                throw new JinjaException("only a recursive loop can be called");
            }
            return again.call(positional, named);
        }

        @Nullable
        Object attribute(String name) {
            return switch (name) {
                case "index" -> index + 1L;
                case "index0" -> (long) index;
                case "revindex" -> (long) all.size() - index;
                case "revindex0" -> all.size() - index - 1L;
                case "first" -> index == 0;
                case "last" -> index == all.size() - 1;
                case "length" -> (long) all.size();
                case "depth" -> depth + 1L;
                case "depth0" -> (long) depth;
                case "previtem" -> index > 0 ? all.get(index - 1) : new Undefined("the item before the first");
                case "nextitem" ->
                    index + 1 < all.size() ? all.get(index + 1) : new Undefined("the item after the last");
                case "cycle" ->
                    (Callee) (p, _) -> {
                        if (p.isEmpty()) {
                            throw new JinjaException("loop.cycle: nothing to cycle through");
                        }
                        return p.get(index % p.size());
                    };
                case "changed" ->
                    (Callee) (p, _) -> {
                        Tuple now = new Tuple(p);
                        boolean differs = !PythonValues.equal(changed, now);
                        changed = now;
                        return differs;
                    };
                default -> new Undefined("loop." + name);
            };
        }
    }

    private Callee macro(String name, List<Statement.Parameter> parameters, List<Statement> body, Scope defined) {
        return (positional, named) -> {
            Scope scope = defined.within();
            Map<String, @Nullable Object> left = new LinkedHashMap<>(named);
            if (left.containsKey("caller")) {
                scope.variables.put("caller", left.remove("caller"));
            }
            for (int i = 0; i < parameters.size(); i++) {
                Statement.Parameter p = parameters.get(i);
                if (i < positional.size()) {
                    scope.variables.put(p.name(), positional.get(i));
                } else if (left.containsKey(p.name())) {
                    scope.variables.put(p.name(), left.remove(p.name()));
                } else if (p.otherwise().isPresent()) {
                    scope.variables.put(p.name(), value(p.otherwise().get(), scope));
                } else {
                    scope.variables.put(p.name(), new Undefined("'" + p.name() + "' of macro " + name));
                }
            }
            int extra = Math.max(0, positional.size() - parameters.size());
            if (extra > 0 || !left.isEmpty()) {
                throw new JinjaException("macro '" + name + "' takes " + parameters.size() + " arguments");
            }
            return captured(body, scope);
        };
    }

    private Given given(String what, Expression.Arguments arguments, Scope scope) {
        List<@Nullable Object> positional =
                new ArrayList<>(arguments.positional().size());
        for (Expression e : arguments.positional()) {
            positional.add(value(e, scope));
        }
        Map<String, @Nullable Object> named = new LinkedHashMap<>();
        for (Map.Entry<String, Expression> e : arguments.named().entrySet()) {
            named.put(e.getKey(), value(e.getValue(), scope));
        }
        return new Given(what, positional, named);
    }

    private @Nullable Object call(Expression.Call call, Optional<Callee> caller, Scope scope) {
        Object function = value(call.function(), scope);
        if (function instanceof Undefined u) {
            throw u.error();
        }
        if (!(function instanceof Callee callee)) {
            throw new JinjaException("a " + PythonText.type(function) + " cannot be called");
        }
        Given given = given("call", call.arguments(), scope);
        Map<String, @Nullable Object> named = given.named();
        caller.ifPresent(c -> named.put("caller", c));
        enter();
        Object result = callee.call(given.positional(), named);
        depth--;
        return result;
    }

    private @Nullable Object attribute(@Nullable Object of, String name) {
        if (of instanceof Undefined u) {
            throw u.error();
        }
        if (of instanceof LoopState loop) {
            return loop.attribute(name);
        }
        if (of instanceof Namespace n) {
            return n.attributes().containsKey(name) ? n.attributes().get(name) : PythonValues.missing(of, name);
        }
        Optional<Callee> method = Methods.of(of, name);
        return method.isPresent() ? method.get() : PythonValues.item(of, name);
    }

    private @Nullable Object item(@Nullable Object of, @Nullable Object key) {
        if (of instanceof Undefined u) {
            throw u.error();
        }
        Object found = PythonValues.item(of, key);
        // as Jinja does: an item first, then an attribute
        return found instanceof Undefined && key instanceof String name ? attribute(of, name) : found;
    }

    private @Nullable Object optional(Optional<Expression> e, Scope scope) {
        return e.isEmpty() ? null : value(e.get(), scope);
    }

    private @Nullable Object value(Expression expression, Scope scope) {
        step();
        return switch (expression) {
            case Expression.Constant c -> c.value();
            case Expression.Name n -> scope.get(n.name());
            case Expression.Sequence s -> {
                List<@Nullable Object> elements = new ArrayList<>(s.elements().size());
                for (Expression e : s.elements()) {
                    elements.add(value(e, scope));
                }
                yield s.tuple() ? new Tuple(elements) : elements;
            }
            case Expression.Dictionary d -> {
                Map<@Nullable Object, @Nullable Object> map = new LinkedHashMap<>();
                for (int i = 0; i < d.keys().size(); i++) {
                    map.put(value(d.keys().get(i), scope), value(d.values().get(i), scope));
                }
                yield map;
            }
            case Expression.Attribute a -> attribute(value(a.of(), scope), a.name());
            case Expression.Item i -> item(value(i.of(), scope), value(i.key(), scope));
            case Expression.Slice s ->
                PythonValues.slice(
                        value(s.of(), scope),
                        optional(s.from(), scope),
                        optional(s.to(), scope),
                        optional(s.step(), scope));
            case Expression.Call c -> call(c, Optional.empty(), scope);
            case Expression.Filter f ->
                Filters.apply(value(f.of().orElseThrow(), scope), given(f.name(), f.arguments(), scope));
            case Expression.Test t -> Tests.holds(value(t.of(), scope), given(t.name(), t.arguments(), scope));
            case Expression.Sign s -> {
                Object of = value(s.of(), scope);
                yield s.negative() ? Arithmetic.negated(of) : Arithmetic.negated(Arithmetic.negated(of));
            }
            case Expression.Not n -> !PythonValues.truth(value(n.of(), scope));
            case Expression.Logic l -> {
                Object left = value(l.left(), scope);
                yield PythonValues.truth(left) == l.and() ? value(l.right(), scope) : left;
            }
            case Expression.Binary b ->
                Arithmetic.binary(b.operator(), value(b.left(), scope), value(b.right(), scope));
            case Expression.Comparison c -> {
                Object left = value(c.first(), scope);
                boolean holds = true;
                for (int i = 0; holds && i < c.operators().size(); i++) {
                    Object right = value(c.operands().get(i), scope);
                    holds = PythonValues.comparison(c.operators().get(i), left, right);
                    left = right;
                }
                yield holds;
            }
            case Expression.Conditional c ->
                PythonValues.truth(value(c.condition(), scope))
                        ? value(c.then(), scope)
                        : c.otherwise().isPresent()
                                ? value(c.otherwise().get(), scope)
                                : new Undefined("the value of an if without else");
        };
    }
}
