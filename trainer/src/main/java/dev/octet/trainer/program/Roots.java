package dev.octet.trainer.program;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Which values share memory: a view and its origin are one value, named by its root, and so is a part of another value that a device leaves where it is. */
public final class Roots {
    private final List<Value> values;
    private final int[] parent;

    private Roots(Program program, Map<Value, Value> parts) {
        values = program.values();
        parent = new int[values.size()];
        for (int i = 0; i < parent.length; i++) {
            parent[i] = i;
        }
        for (Step s : program.steps()) {
            if (s.isView()) {
                join(
                        s.backward() ? s.upstream().getFirst() : s.inputs().getFirst(),
                        s.results().getFirst(),
                        s);
            }
        }
        parts.forEach((part, whole) -> parent[find(part.id())] = find(whole.id()));
    }

    /** The roots of a program. */
    public static Roots of(Program program) {
        return new Roots(program, Map.of());
    }

    /** @param parts temporary values that lie within another one, by which it is */
    static Roots of(Program program, Map<Value, Value> parts) {
        return new Roots(program, parts);
    }

    /** The value whose memory {@code value} uses: itself, or the origin of a view. */
    public Value of(Value value) {
        return values.get(id(value));
    }

    /** Its id. */
    int id(Value value) {
        return find(value.id());
    }

    private int find(int id) {
        int at = id;
        while (parent[at] != at) {
            at = parent[at];
        }
        return at;
    }

    /** Makes {@code view} another name of {@code of}; a value outside the arena stays the root. */
    private void join(@Nullable Value of, @Nullable Value view, Step s) {
        if (of == null || view == null) {
            throw new IllegalStateException("a view without operands: " + s.op().type());
        }
        int a = find(of.id());
        int b = find(view.id());
        if (a == b) {
            return;
        }
        boolean viewIsTemporary = values.get(b).role() == ValueRole.TEMPORARY;
        if (!viewIsTemporary && values.get(a).role() != ValueRole.TEMPORARY) {
            throw new IllegalStateException("" + of + " and " + view + " cannot share memory");
        }
        parent[viewIsTemporary ? b : a] = viewIsTemporary ? a : b;
    }
}
