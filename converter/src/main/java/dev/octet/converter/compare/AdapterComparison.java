package dev.octet.converter.compare;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.peft.AdaptedModule;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Compares two adapters of one method by what they do to a model. Of LoRA these are the products {@code s·B·A}, not their factors: two
 * factorisations of one product are equal. Norms of products and of their differences come from the small matrices {@code BᵀB} and {@code
 * AAᵀ}, because |B·A|² = Σ (BᵀB)∘(AAᵀ); no product is ever formed.
 */
public final class AdapterComparison {
    private static final Set<DType> FLOATS = Set.of(DType.F32, DType.F16, DType.BF16);

    private final PeftAdapter a;
    private final PeftAdapter b;
    private final Optional<Pattern> only;
    private final List<AdapterDiff.Part> parts = new ArrayList<>();
    private final List<ModelDiff.Uncomparable> uncomparable = new ArrayList<>();
    private final List<String> onlyA = new ArrayList<>();
    private final List<String> onlyB = new ArrayList<>();
    private double differenceSquared;
    private double changeSquared;

    private AdapterComparison(PeftAdapter a, PeftAdapter b, Optional<Pattern> only) {
        this.a = a;
        this.b = b;
        this.only = only;
    }

    /**
     * Compares two adapters.
     *
     * @param only compares what has a name with a match; empty for all
     * @throws dev.octet.formats.error.OctetException when one cannot be read
     * @throws InvalidDataException when they are of different methods
     * @throws InvalidOptionException when {@code only} matches nothing
     * @throws IOException when a file cannot be read
     */
    public static AdapterDiff compare(Path a, Path b, Optional<Pattern> only) throws IOException {
        try (PeftAdapter first = PeftAdapter.open(a);
                PeftAdapter second = PeftAdapter.open(b)) {
            if (first.config().type() != second.config().type()) {
                throw new InvalidDataException(
                        "adapters of different methods do not compare: "
                                + first.config().type() + " and "
                                + second.config().type(),
                        a + " and " + b,
                        "compare adapters of one method; those that `octet merge` takes also as merged models");
            }
            return new AdapterComparison(first, second, only).compare(a.toString(), b.toString());
        }
    }

    private AdapterDiff compare(String pathA, String pathB) {
        TreeSet<String> modules = new TreeSet<>(a.modules().keySet());
        modules.addAll(b.modules().keySet());
        modules.stream().filter(this::isAsked).forEach(this::module);
        TreeSet<String> saved = new TreeSet<>(a.saved().keySet());
        saved.addAll(b.saved().keySet());
        saved.stream()
                .filter(this::isAsked)
                .forEach(name -> tensors(
                        name, "parameter", a.saved().get(name), b.saved().get(name), 0));
        if (a.prompt().isPresent() || b.prompt().isPresent()) {
            String name = PeftRole.PROMPT.suffix();
            if (isAsked(name)) {
                tensors(
                        name,
                        "virtual tokens",
                        a.prompt().orElse(null),
                        b.prompt().orElse(null),
                        0);
            }
        }
        if (only.isPresent() && parts.isEmpty() && uncomparable.isEmpty() && onlyA.isEmpty() && onlyB.isEmpty()) {
            throw new InvalidOptionException(
                    "--only '" + only.get() + "' matches nothing of the adapters",
                    pathA + " and " + pathB,
                    "`octet inspect --tensors` lists their modules");
        }
        parts.sort(Comparator.comparingDouble((AdapterDiff.Part p) -> -p.relative())
                .thenComparing(AdapterDiff.Part::name)
                .thenComparing(AdapterDiff.Part::what));
        return new AdapterDiff(
                pathA,
                pathB,
                a.config().type().name().toLowerCase(Locale.ROOT).replace('_', '-'),
                keys(),
                parts,
                ratio(Math.sqrt(differenceSquared), Math.sqrt(changeSquared)),
                uncomparable,
                onlyA,
                onlyB,
                sameBytes());
    }

    private boolean isAsked(String name) {
        return only.isEmpty() || only.get().matcher(name).find();
    }

    private List<AdapterDiff.Key> keys() {
        ObjectNode first = a.config().withDefaults().json();
        ObjectNode second = b.config().withDefaults().json();
        TreeSet<String> names = new TreeSet<>();
        first.fieldNames().forEachRemaining(names::add);
        second.fieldNames().forEachRemaining(names::add);
        List<AdapterDiff.Key> keys = new ArrayList<>();
        for (String name : names) {
            JsonNode x = first.get(name);
            JsonNode y = second.get(name);
            boolean same = x == null ? (y == null) : isSame(x, y);
            if (!same) {
                keys.add(new AdapterDiff.Key(name, text(x), text(y)));
            }
        }
        return keys;
    }

    /** The order of a list does not matter: PEFT writes sets. 8 and 8.0 are one number. */
    private static boolean isSame(JsonNode x, @Nullable JsonNode y) {
        if (y == null) {
            return false;
        }
        if (x.isArray() && y.isArray()) {
            List<String> first = new ArrayList<>();
            x.forEach(e -> first.add(e.toString()));
            List<String> second = new ArrayList<>();
            y.forEach(e -> second.add(e.toString()));
            first.sort(null);
            second.sort(null);
            return first.equals(second);
        }
        boolean numbers = x.isNumber() && y.isNumber();
        return numbers ? (x.doubleValue() == y.doubleValue()) : x.equals(y);
    }

    private static String text(@Nullable JsonNode value) {
        return value == null ? "" : value.toString();
    }

    private boolean sameBytes() {
        if (!a.tensors().keySet().equals(b.tensors().keySet())) {
            return false;
        }
        for (Map.Entry<String, Tensor> each : a.tensors().entrySet()) {
            Tensor other = b.tensors().get(each.getKey());
            if (other == null
                    || !each.getValue().spec().equals(other.spec())
                    || MemorySegment.mismatch(
                                    each.getValue().bytes(),
                                    0,
                                    each.getValue().bytes().byteSize(),
                                    other.bytes(),
                                    0,
                                    other.bytes().byteSize())
                            >= 0) {
                return false;
            }
        }
        return true;
    }

    private void module(String path) {
        AdaptedModule first = a.modules().get(path);
        AdaptedModule second = b.modules().get(path);
        if (first == null || second == null) {
            (first == null ? onlyB : onlyA).add(path);
            return;
        }
        if (a.config().type() == PeftType.LORA) {
            product(path, first, second, PeftRole.LORA_A, PeftRole.LORA_B);
            product(path, first, second, PeftRole.LORA_EMBEDDING_A, PeftRole.LORA_EMBEDDING_B);
        }
        for (PeftRole role : PeftRole.values()) {
            String what = switch (role) {
                case LORA_A, LORA_B, LORA_EMBEDDING_A, LORA_EMBEDDING_B, PROMPT, SAVED -> "";
                case LORA_B_BIAS -> "bias of B";
                case LORA_MAGNITUDE -> "norms";
                case IA3 -> "factors";
                case NORM_WEIGHT, BASE_WEIGHT -> "weight";
                case NORM_BIAS, BASE_BIAS -> "bias";
                case TOKENS -> "tokens";
                case DOWN_WEIGHT, DOWN_BIAS, UP_WEIGHT, UP_BIAS -> role.suffix().substring(1);
            };
            boolean either =
                    first.tensor(role).isPresent() || second.tensor(role).isPresent();
            if (!what.isEmpty() && either) {
                float neutral = role == PeftRole.IA3 ? 1 : 0;
                tensors(path, what, first.tensors().get(role), second.tensors().get(role), neutral);
            }
        }
    }

    /** Element by element; the change that the first makes is its distance from {@code neutral}. */
    private void tensors(String name, String what, @Nullable Tensor first, @Nullable Tensor second, float neutral) {
        if (first == null || second == null) {
            (first == null ? onlyB : onlyA).add(name + ", " + what);
            return;
        }
        if (!first.shape().equals(second.shape())) {
            uncomparable.add(new ModelDiff.Uncomparable(
                    name, name, what + " of shapes " + first.shape() + " and " + second.shape()));
            return;
        }
        if (!FLOATS.contains(first.dtype()) || !FLOATS.contains(second.dtype())) {
            uncomparable.add(new ModelDiff.Uncomparable(
                    name, name, what + " of types " + first.dtype() + " and " + second.dtype()));
            return;
        }
        double squareA = 0;
        double squareB = 0;
        double inner = 0;
        double difference = 0;
        for (long i = 0; i < first.shape().elementCount(); i++) {
            double x = (double) Floats.get(first.dtype(), first.bytes(), i) - neutral;
            double y = (double) Floats.get(second.dtype(), second.bytes(), i) - neutral;
            squareA += x * x;
            squareB += y * y;
            inner += x * y;
            difference += (x - y) * (x - y);
        }
        add(name, what, new Sums(squareA, squareB, inner, difference));
    }

    /**
     * Squares of norms.
     *
     * @param a of the first
     * @param b of the second
     * @param inner product of both
     * @param difference of their difference
     */
    private record Sums(double a, double b, double inner, double difference) {}

    private void add(String name, String what, Sums sums) {
        differenceSquared += sums.difference();
        changeSquared += sums.a();
        parts.add(new AdapterDiff.Part(
                name,
                what,
                ratio(Math.sqrt(sums.difference()), Math.sqrt(sums.a())),
                sums.inner() / Math.sqrt(sums.a() * sums.b()),
                Math.sqrt(sums.a()),
                Math.sqrt(sums.b())));
    }

    private static double ratio(double difference, double change) {
        return difference == 0 ? 0 : difference / change;
    }

    /** A product of two factors as doubles: A [experts * rank, in] expert by expert, B [out, rank * experts] rank by rank. */
    private static final class Product {
        private final double[] a;
        private final double[] b;
        private final int in;
        private final int out;
        private final int rank;
        private final int experts;
        private final double scaling;

        private Product(PeftAdapter adapter, String path, Tensor a, Tensor b) {
            this.a = doubles(a);
            this.b = doubles(b);
            this.in = Math.toIntExact(a.shape().dim(1));
            this.out = Math.toIntExact(b.shape().dim(0));
            int rows = Math.toIntExact(a.shape().dim(0));
            int configured = adapter.config().lora().rank(path);
            boolean several = !adapter.config().lora().targetParameters().isEmpty() && rows % configured == 0;
            this.rank = several ? configured : rows;
            this.experts = several ? rows / configured : 1;
            this.scaling = adapter.config().lora().scaling(path);
        }

        /** The factors of a module; empty where they do not fit together, are too large or are not floats. */
        static Optional<Product> of(PeftAdapter adapter, String path, Tensor a, Tensor b) {
            boolean fit = a.shape().rank() == 2
                    && b.shape().rank() == 2
                    && a.shape().dim(0) == b.shape().dim(1)
                    && isReadable(a)
                    && isReadable(b);
            return fit ? Optional.of(new Product(adapter, path, a, b)) : Optional.empty();
        }

        private static boolean isReadable(Tensor tensor) {
            // of no elements, a dimension may be of any size
            return FLOATS.contains(tensor.dtype())
                    && tensor.shape().elementCount() > 0
                    && tensor.shape().elementCount() < Integer.MAX_VALUE;
        }

        boolean hasShapeOf(Product other) {
            return in == other.in && out == other.out && experts == other.experts;
        }

        private static double[] doubles(Tensor tensor) {
            double[] all = new double[Math.toIntExact(tensor.shape().elementCount())];
            for (int i = 0; i < all.length; i++) {
                all[i] = Floats.get(tensor.dtype(), tensor.bytes(), i);
            }
            return all;
        }

        /** Σ over experts of (B₁ᵀB₂)∘(A₁A₂ᵀ), times both scalings: the inner product of the deltas. */
        static double inner(Product x, Product y) {
            double sum = 0;
            for (int e = 0; e < x.experts; e++) {
                for (int k = 0; k < x.rank; k++) {
                    for (int m = 0; m < y.rank; m++) {
                        double ofA = 0;
                        for (int i = 0; i < x.in; i++) {
                            ofA += x.a[(e * x.rank + k) * x.in + i] * y.a[(e * y.rank + m) * y.in + i];
                        }
                        double ofB = 0;
                        for (int o = 0; o < x.out; o++) {
                            ofB += x.b[(o * x.rank + k) * x.experts + e] * y.b[(o * y.rank + m) * y.experts + e];
                        }
                        sum += ofA * ofB;
                    }
                }
            }
            return sum * x.scaling * y.scaling;
        }
    }

    private void product(String path, AdaptedModule first, AdaptedModule second, PeftRole roleA, PeftRole roleB) {
        Tensor a1 = first.tensors().get(roleA);
        Tensor b1 = first.tensors().get(roleB);
        Tensor a2 = second.tensors().get(roleA);
        Tensor b2 = second.tensors().get(roleB);
        if (a1 == null && b1 == null && a2 == null && b2 == null) {
            return;
        }
        if (a1 == null || b1 == null || a2 == null || b2 == null) {
            uncomparable.add(new ModelDiff.Uncomparable(path, path, "a factor is missing"));
            return;
        }
        Optional<Product> x = Product.of(a, path, a1, b1);
        Optional<Product> y = Product.of(b, path, a2, b2);
        if (x.isEmpty() || y.isEmpty() || !x.get().hasShapeOf(y.get())) {
            uncomparable.add(new ModelDiff.Uncomparable(
                    path,
                    path,
                    "products of A " + a1.shape() + ", B " + b1.shape() + " and A " + a2.shape() + ", B "
                            + b2.shape()));
            return;
        }
        double squareA = Product.inner(x.get(), x.get());
        double squareB = Product.inner(y.get(), y.get());
        double inner = Product.inner(x.get(), y.get());
        // rounding makes the sum of equal terms a little negative
        double difference = Math.max(0, squareA - 2 * inner + squareB);
        add(path, "delta", new Sums(squareA, squareB, inner, difference));
    }
}
