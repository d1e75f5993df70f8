package dev.octet.converter.infer;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Operators that make or change shapes. */
final class ShapeTypes {
    static final Map<String, TypeRule> RULES = Map.ofEntries(
            Map.entry("Shape", ShapeTypes::shape),
            Map.entry("Size", t -> t.set(0, DType.I64, List.of())),
            Map.entry("Constant", ShapeTypes::constant),
            Map.entry("ConstantOfShape", ShapeTypes::constantOfShape),
            Map.entry("EyeLike", ShapeTypes::eyeLike),
            Map.entry("Range", t -> t.set(0, t.dtype(0), List.of(Dim.UNKNOWN))),
            Map.entry("Reshape", ShapeTypes::reshape),
            Map.entry("Flatten", ShapeTypes::flatten),
            Map.entry("Squeeze", ShapeTypes::squeeze),
            Map.entry("Unsqueeze", ShapeTypes::unsqueeze),
            Map.entry("Transpose", ShapeTypes::transpose),
            Map.entry("Expand", ShapeTypes::expand),
            Map.entry("Concat", ShapeTypes::concat),
            Map.entry("Split", ShapeTypes::split),
            Map.entry("Slice", ShapeTypes::slice),
            Map.entry("Tile", ShapeTypes::tile),
            Map.entry("Pad", ShapeTypes::pad),
            Map.entry("DepthToSpace", t -> blocks(t, true)),
            Map.entry("SpaceToDepth", t -> blocks(t, false)));

    private ShapeTypes() {}

    /** {@code count} dimensions of which nothing is known. */
    static List<Dim> unknown(long count) {
        return Collections.nCopies(Math.clamp(count, 0, NodeTypes.MAX_RANK), Dim.UNKNOWN);
    }

    /** The number of elements of a 1-D input, which is the rank of what it describes; -1 when unknown. */
    private static long length(NodeTypes t, int input) {
        List<Dim> dims = t.dims(input);
        Long size = dims == null || dims.size() != 1 ? null : dims.getFirst().size();
        return size == null || size > NodeTypes.MAX_RANK ? -1 : size;
    }

    private static void shape(NodeTypes t) {
        // With dimensions the evaluator knows more; this is for inputs without a rank.
        t.set(0, DType.I64, List.of(Dim.UNKNOWN));
    }

    private static void constant(NodeTypes t) {
        for (Attribute a : t.node().attributes().values()) {
            switch (a.value()) {
                case Attribute.OfTensor v -> {
                    if (v.value().data() instanceof Initializer.Strings s) {
                        t.set(0, DType.STRING, Shapes.dims(s.shape()));
                    } else {
                        v.value().tensor().ifPresent(x -> t.set(0, x.dtype(), Shapes.dims(x.shape())));
                    }
                }
                case Attribute.OfInt _ -> t.set(0, DType.I64, List.of());
                case Attribute.OfFloat _ -> t.set(0, DType.F32, List.of());
                case Attribute.OfText _ -> t.set(0, DType.STRING, List.of());
                case Attribute.OfInts v ->
                    t.set(0, DType.I64, List.of(Dim.of(v.values().size())));
                case Attribute.OfFloats v ->
                    t.set(0, DType.F32, List.of(Dim.of(v.values().size())));
                case Attribute.OfTexts v ->
                    t.set(0, DType.STRING, List.of(Dim.of(v.values().size())));
                case Attribute.OfOther _,
                        Attribute.OfGraph _,
                        Attribute.OfType _,
                        Attribute.OfTensors _,
                        Attribute.OfGraphs _,
                        Attribute.OfTypes _,
                        Attribute.Reference _ -> {}
            }
        }
    }

    private static void constantOfShape(NodeTypes t) {
        DType dtype = DType.F32;
        if (t.node().attribute("value").orElse(null) instanceof Attribute.OfTensor v) {
            dtype = v.value().tensor().map(x -> x.dtype()).orElse(null);
        }
        t.set(0, dtype, described(t, 0));
    }

    /** The dimensions that a 1-D input spells out; only the rank where its elements are unknown; null without even that. */
    private static @Nullable List<Dim> described(NodeTypes t, int input) {
        KnownValue shape = t.value(input);
        if (shape != null && shape.size() <= NodeTypes.MAX_RANK) {
            for (int i = 0; i < shape.size(); i++) {
                if (shape.isKnown(i) && shape.raw(i) < 0) {
                    throw t.contradiction("dimension " + shape.raw(i) + " is negative");
                }
            }
            return shape.dims();
        }
        long rank = length(t, input);
        return rank < 0 ? null : unknown(rank);
    }

    private static void eyeLike(NodeTypes t) {
        DType declared = DType.ofOnnxId((int) t.node().intAttribute("dtype", 0)).orElse(null);
        t.set(0, declared == null ? t.dtype(0) : declared, t.dims(0));
    }

    // ---- Reshape
    // ------------------------------------------------------------------------------------------------------

    private static void reshape(NodeTypes t) {
        KnownValue target = t.value(1);
        if (target == null || target.size() > NodeTypes.MAX_RANK || target.dtype() != DType.I64) {
            long rank = length(t, 1);
            t.set(0, t.dtype(0), rank < 0 ? null : unknown(rank));
            return;
        }
        List<Dim> input = t.dims(0);
        boolean allowZero = t.node().intAttribute("allowzero", 0) != 0;
        List<Dim> dims = new ArrayList<>();
        int open = -1;
        for (int i = 0; i < target.size(); i++) {
            if (!target.isKnown(i)) {
                dims.add(target.dim(i));
            } else if (target.raw(i) == 0 && !allowZero) {
                if (input != null && i >= input.size()) {
                    throw t.contradiction("dimension " + i + " is to be copied from an input of rank " + input.size());
                }
                dims.add(input == null ? Dim.UNKNOWN : input.get(i));
            } else if (target.raw(i) == -1 && open < 0) {
                open = i;
                dims.add(Dim.UNKNOWN);
            } else if (target.raw(i) < 0) {
                throw t.contradiction("dimension " + i + " of the new shape is " + target.raw(i));
            } else {
                dims.add(Dim.of(target.raw(i)));
            }
        }
        if (input != null && open >= 0) {
            dims.set(open, remaining(t, input, dims, open));
        } else if (input != null) {
            checkCounts(t, input, dims);
        }
        t.set(0, t.dtype(0), dims);
    }

    private static void checkCounts(NodeTypes t, List<Dim> from, List<Dim> to) {
        Product a = Product.of(from, -1);
        Product b = Product.of(to, -1);
        if (a.isNumber() && b.isNumber() && a.number != b.number) {
            throw t.contradiction("a tensor of shape " + from + " cannot take the shape " + to);
        }
    }

    /** What dimension {@code open} of {@code to} must be for both shapes to have as many elements. */
    private static Dim remaining(NodeTypes t, List<Dim> from, List<Dim> to, int open) {
        Product whole = Product.of(from, -1);
        Product rest = Product.of(to, open);
        if (whole.unknown || rest.unknown || rest.number == 0 || whole.number == 0) {
            return Dim.UNKNOWN;
        }
        List<String> symbols = new ArrayList<>(whole.symbols);
        for (String s : rest.symbols) {
            if (!symbols.remove(s)) {
                return Dim.UNKNOWN;
            }
        }
        if (symbols.isEmpty()) {
            if (whole.number % rest.number != 0) {
                throw t.contradiction("a tensor of shape " + from + " cannot take the shape " + to);
            }
            return Dim.of(whole.number / rest.number);
        }
        return symbols.size() == 1 && whole.number == rest.number ? Dim.of(symbols.getFirst()) : Dim.UNKNOWN;
    }

    /** A product of dimensions: a number times symbols. */
    private static final class Product {
        long number = 1;
        boolean unknown;
        final List<String> symbols = new ArrayList<>();

        /** The product of all but the one at {@code skipped}. */
        static Product of(List<Dim> dims, int skipped) {
            Product p = new Product();
            for (int i = 0; i < dims.size(); i++) {
                Dim d = dims.get(i);
                if (i == skipped) {
                    continue;
                }
                if (d.size() != null) {
                    long high = Math.multiplyHigh(p.number, d.size());
                    p.number *= d.size();
                    p.unknown |= high != 0 || p.number < 0;
                } else if (d.symbol() != null) {
                    p.symbols.add(d.symbol());
                } else {
                    p.unknown = true;
                }
            }
            return p;
        }

        boolean isNumber() {
            return !unknown && symbols.isEmpty();
        }
    }

    // ---- the others
    // ---------------------------------------------------------------------------------------------------

    private static void flatten(NodeTypes t) {
        List<Dim> x = t.dims(0);
        if (x == null) {
            t.set(0, t.dtype(0), unknown(2));
            return;
        }
        long axis = t.node().intAttribute("axis", 1);
        long a = axis < 0 ? axis + x.size() : axis;
        if (a < 0 || a > x.size()) {
            throw t.contradiction("axis " + axis + " is outside a tensor of rank " + x.size());
        }
        t.set(0, t.dtype(0), List.of(product(x.subList(0, (int) a)), product(x.subList((int) a, x.size()))));
    }

    private static Dim product(List<Dim> dims) {
        Product p = Product.of(dims, -1);
        return p.isNumber()
                ? Dim.of(p.number)
                : !p.unknown && p.symbols.size() == 1 && p.number == 1 ? Dim.of(p.symbols.getFirst()) : Dim.UNKNOWN;
    }

    private static void squeeze(NodeTypes t) {
        List<Dim> x = t.dims(0);
        long[] axes = t.axes();
        if (x == null || axes == null) {
            t.set(0, t.dtype(0), null);
            return;
        }
        boolean[] gone = new boolean[x.size()];
        for (long axis : axes) {
            int a = t.axis(axis, x.size());
            Long size = x.get(a).size();
            if (size != null && size != 1) {
                throw t.contradiction("dimension " + a + " of " + x + " is not 1 and cannot be squeezed");
            }
            gone[a] = true;
        }
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < x.size(); i++) {
            Long size = x.get(i).size();
            if (axes.length == 0 && size == null) {
                t.set(0, t.dtype(0), null); // it may be 1 and go, or not
                return;
            }
            if (axes.length == 0 ? size != null && size != 1 : !gone[i]) {
                dims.add(x.get(i));
            }
        }
        t.set(0, t.dtype(0), dims);
    }

    private static void unsqueeze(NodeTypes t) {
        List<Dim> x = t.dims(0);
        long[] axes = t.axes();
        if (x == null || axes == null) {
            t.set(0, t.dtype(0), null);
            return;
        }
        int rank = x.size() + axes.length;
        boolean[] added = new boolean[rank];
        for (long axis : axes) {
            int a = t.axis(axis, rank);
            if (added[a]) {
                throw t.contradiction("axis " + axis + " is given twice");
            }
            added[a] = true;
        }
        List<Dim> dims = new ArrayList<>(rank);
        for (int i = 0, from = 0; i < rank; i++) {
            dims.add(added[i] ? Dim.of(1) : x.get(from++));
        }
        t.set(0, t.dtype(0), dims);
    }

    private static void transpose(NodeTypes t) {
        List<Dim> x = t.dims(0);
        long[] perm = t.ints("perm");
        if (x == null) {
            t.set(0, t.dtype(0), perm == null ? null : unknown(perm.length));
            return;
        }
        if (perm == null) {
            t.set(0, t.dtype(0), x.reversed());
            return;
        }
        boolean[] seen = new boolean[x.size()];
        List<Dim> dims = new ArrayList<>();
        for (long p : perm) {
            if (perm.length != x.size() || p < 0 || p >= x.size() || seen[(int) p]) {
                throw t.contradiction(Arrays.toString(perm) + " does not permute " + x.size() + " axes");
            }
            seen[(int) p] = true;
            dims.add(x.get((int) p));
        }
        t.set(0, t.dtype(0), perm.length == 0 ? x : dims);
    }

    private static void expand(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> target = described(t, 1);
        if (x == null || target == null) {
            t.set(0, t.dtype(0), null);
            return;
        }
        List<Dim> dims = BroadcastShape.join(x, target);
        if (dims == null) {
            throw t.contradiction("shape " + x + " does not expand to " + target);
        }
        t.set(0, t.dtype(0), dims);
    }

    private static void concat(NodeTypes t) {
        DType dtype = null;
        List<Dim> joined = null;
        Dim along = Dim.of(0);
        int axis = -1;
        boolean complete = true;
        for (int i = 0; i < t.node().inputs().size(); i++) {
            dtype = dtype == null ? t.dtype(i) : dtype;
            List<Dim> x = t.dims(i);
            if (x == null) {
                complete = false;
                continue;
            }
            if (joined == null) {
                axis = t.axisAttribute(0, x.size());
                joined = new ArrayList<>(x);
                along = x.get(axis);
                continue;
            }
            if (x.size() != joined.size()) {
                throw t.contradiction("ranks " + joined.size() + " and " + x.size() + " cannot be joined");
            }
            for (int d = 0; d < x.size(); d++) {
                if (d != axis) {
                    joined.set(d, agreed(t, joined.get(d), x.get(d)));
                }
            }
            along = sum(along, x.get(axis));
        }
        if (joined != null) {
            joined.set(axis, complete ? along : Dim.UNKNOWN);
        }
        t.set(0, dtype, joined);
    }

    /** Two dimensions that must be the same number. */
    static Dim agreed(NodeTypes t, Dim a, Dim b) {
        if (a.size() != null && b.size() != null && !a.sameAs(b)) {
            throw t.contradiction("dimensions " + a + " and " + b + " must be equal");
        }
        return a.size() != null ? a : b.size() != null ? b : a.symbol() != null ? a : b;
    }

    private static Dim sum(Dim a, Dim b) {
        if (a.size() != null && b.size() != null) {
            return Dim.of(a.size() + b.size());
        }
        return a.size() != null && a.size() == 0 ? b : b.size() != null && b.size() == 0 ? a : Dim.UNKNOWN;
    }

    private static void split(NodeTypes t) {
        List<Dim> x = t.dims(0);
        int count = t.node().outputs().size();
        long[] sizes = t.node().hasInput(1) ? t.integers(1) : t.ints("split");
        boolean even = !t.node().hasInput(1) && sizes == null;
        for (int i = 0; i < count; i++) {
            List<Dim> dims = null;
            if (x != null) {
                int axis = t.axisAttribute(0, x.size());
                Long whole = x.get(axis).size();
                Dim part = Dim.UNKNOWN;
                if (sizes != null) {
                    if (sizes.length != count || sizes[i] < 0) {
                        throw t.contradiction("sizes " + Arrays.toString(sizes) + " do not make " + count + " outputs");
                    }
                    part = Dim.of(sizes[i]);
                } else if (even && whole != null) {
                    long chunk = Math.ceilDiv(whole, (long) count);
                    part = Dim.of(Math.clamp(whole - i * chunk, 0, chunk));
                }
                dims = new ArrayList<>(x);
                dims.set(axis, part);
            }
            t.set(i, t.dtype(0), dims);
        }
    }

    private static void slice(NodeTypes t) {
        List<Dim> x = t.dims(0);
        boolean attributes = t.node().inputs().size() == 1;
        long[] starts = attributes ? t.ints("starts") : t.integers(1);
        long[] ends = attributes ? t.ints("ends") : t.integers(2);
        long[] axes = attributes ? t.ints("axes") : t.integers(3);
        long[] steps = t.integers(4);
        boolean axesUnknown = t.node().hasInput(3) && axes == null;
        if (x == null || axesUnknown) {
            t.set(0, t.dtype(0), x == null ? null : unknown(x.size()));
            return;
        }
        long given = axes != null ? axes.length : starts != null ? starts.length : length(t, 1);
        List<Dim> dims = new ArrayList<>(x);
        for (int i = 0; i < (given < 0 ? x.size() : given); i++) {
            int a = t.axis(axes == null ? i : axes[i], x.size());
            Long size = x.get(a).size();
            long step = steps == null ? 1 : i < steps.length ? steps[i] : 0;
            if (steps != null && step == 0) {
                throw t.contradiction("a step of 0");
            }
            boolean stepKnown = steps != null || !t.node().hasInput(4);
            boolean known = stepKnown
                    && starts != null
                    && ends != null
                    && i < starts.length
                    && i < ends.length
                    && step != Long.MIN_VALUE;
            if (known && starts != null && ends != null && size != null) {
                dims.set(a, Dim.of(Movement.sliceLength(starts[i], ends[i], step, size)));
            } else if (!(known
                    && starts != null
                    && ends != null
                    && starts[i] == 0
                    && ends[i] >= Integer.MAX_VALUE
                    && step == 1)) {
                dims.set(a, Dim.UNKNOWN); // else: all of it, whatever its size
            }
        }
        t.set(0, t.dtype(0), dims);
    }

    private static void tile(NodeTypes t) {
        List<Dim> x = t.dims(0);
        long[] repeats = t.integers(1);
        if (x == null || repeats == null) {
            t.set(0, t.dtype(0), x == null ? null : unknown(x.size()));
            return;
        }
        if (repeats.length != x.size()) {
            throw t.contradiction(repeats.length + " repeats for a tensor of rank " + x.size());
        }
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < repeats.length; i++) {
            dims.add(scaled(x.get(i), repeats[i]));
        }
        t.set(0, t.dtype(0), dims);
    }

    /** {@code d} times {@code factor}. */
    static Dim scaled(Dim d, long factor) {
        if (factor == 1) {
            return d;
        }
        return d.size() == null || factor < 0 || Math.multiplyHigh(d.size(), factor) != 0 || d.size() * factor < 0
                ? Dim.UNKNOWN
                : Dim.of(d.size() * factor);
    }

    private static void pad(NodeTypes t) {
        List<Dim> x = t.dims(0);
        long[] pads = t.node().hasInput(1) ? t.integers(1) : t.ints("pads");
        long[] axes = t.integers(3);
        if (x == null || pads == null || (t.node().hasInput(3) && axes == null)) {
            t.set(0, t.dtype(0), x == null ? null : unknown(x.size()));
            return;
        }
        int count = axes == null ? x.size() : axes.length;
        if (pads.length != 2L * count) {
            throw t.contradiction(pads.length + " pads for " + count + " axes");
        }
        List<Dim> dims = new ArrayList<>(x);
        for (int i = 0; i < count; i++) {
            int a = axes == null ? i : t.axis(axes[i], x.size());
            long added = pads[i] + pads[i + count];
            Long size = x.get(a).size();
            if (added != 0) {
                dims.set(a, size == null || size + added < 0 ? Dim.UNKNOWN : Dim.of(size + added));
            }
        }
        t.set(0, t.dtype(0), dims);
    }

    /** DepthToSpace and its inverse: channels become blocks of pixels, [N, C, H, W]. */
    private static void blocks(NodeTypes t, boolean toSpace) {
        List<Dim> x = t.dims(0);
        long b = t.node().intAttribute("blocksize", 0);
        if (x == null || x.size() != 4 || b < 1 || b > Integer.MAX_VALUE) {
            t.set(0, t.dtype(0), unknown(4));
            return;
        }
        List<Dim> dims = toSpace
                ? List.of(x.get(0), divided(x.get(1), b * b), scaled(x.get(2), b), scaled(x.get(3), b))
                : List.of(x.get(0), scaled(x.get(1), b * b), divided(x.get(2), b), divided(x.get(3), b));
        t.set(0, t.dtype(0), dims);
    }

    private static Dim divided(Dim d, long by) {
        return d.size() == null ? Dim.UNKNOWN : Dim.of(d.size() / by);
    }
}
