package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.op.copy.Split;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Parts of tensors that stay where they are instead of being copied: columns that a Split gives to operators whose kernels take them with the rows of the whole
 * ({@link dev.octet.trainer.kernel.CudaKernel#takesParts}), such as queries, keys and values of one Linear, and backward the gradients that such operators write where the Split would
 * join them.
 */
final class PlacedParts {
    /** Nothing lies within anything else. */
    static final PlacedParts NONE = new PlacedParts(Map.of(), Set.of());

    /**
     * Columns of a tensor.
     *
     * @param start first column
     */
    record Part(Value whole, long start) {
        /** Elements from row to row. */
        long pitch() {
            return whole.type().shape().dim(-1);
        }

        /** Bytes from the whole's beginning to the part's. */
        long offset() {
            return start * whole.type().dtype().bits() / 8;
        }

        /** Copies the part's rows out of the whole. */
        void copy(Value part, MemorySegment from, MemorySegment to) {
            int width = part.type().dtype().bits() / 8;
            long row = part.type().shape().dim(-1) * width;
            long rows = row == 0 ? 0 : part.type().byteSize() / row;
            for (long i = 0; i < rows; i++) {
                MemorySegment.copy(from, i * pitch() * width + offset(), to, i * row, row);
            }
        }
    }

    private final Map<Value, Part> parts;
    private final Set<Step> copies;

    private PlacedParts(Map<Value, Part> parts, Set<Step> copies) {
        this.parts = parts;
        this.copies = copies;
    }

    /** Those of a program. */
    static PlacedParts of(Program program) {
        return new Search(program).found();
    }

    /** Where a value lies within another; null for a value by itself. */
    @Nullable
    Part of(Value value) {
        return parts.get(value);
    }

    /** The tensor of a part whose whole lies at an address. */
    static CudaTensor tensor(Value value, Part part, long whole) {
        return new CudaTensor(value.type(), whole + part.offset(), part.pitch());
    }

    /** The values that lie within others, by which they are. */
    Map<Value, Value> wholes() {
        return parts.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().whole()));
    }

    /** Whether a step would only copy what lies in place. */
    boolean isDone(Step step) {
        return copies.contains(step);
    }

    /** Steps that could be left out, of which those stay that all other steps agree with. */
    private static final class Search {
        /** What a value is to a step. */
        private enum Role {
            INPUT,
            GRADIENT,
            OTHER
        }

        /** A value as an operand of a step. */
        private record Use(Step step, Role role, int at) {}

        private final Program program;
        private final Map<Value, List<Use>> uses = new HashMap<>();
        private final Set<Step> splits = Collections.newSetFromMap(new IdentityHashMap<>());

        Search(Program program) {
            this.program = program;
            for (Step s : program.steps()) {
                use(s, Role.INPUT, s.inputs());
                use(s, Role.OTHER, s.outputs());
                use(s, Role.OTHER, s.upstream());
                use(s, Role.GRADIENT, s.gradients());
            }
        }

        private void use(Step step, Role role, List<@Nullable Value> operands) {
            for (int i = 0; i < operands.size(); i++) {
                Value v = operands.get(i);
                if (v != null) {
                    uses.computeIfAbsent(v, _ -> new ArrayList<>()).add(new Use(step, role, i));
                }
            }
        }

        PlacedParts found() {
            Set<Value> outputs = new HashSet<>(program.outputs().values());
            for (Step s : program.steps()) {
                if (s.op() instanceof Split split
                        && split.axis() == split.x().shape().rank() - 1
                        && !s.accumulated().contains(0)
                        && isTemporary(whole(s))
                        && isAligned(split)
                        && parts(s).stream()
                                .allMatch(p -> isTemporary(p) && !outputs.contains(p) && isOfOthers(s, p))) {
                    splits.add(s);
                }
            }
            Map<Value, Part> parts = placed();
            while (splits.removeIf(s -> disagrees(s, parts))) {
                parts.clear();
                parts.putAll(placed());
            }
            return new PlacedParts(parts, splits);
        }

        /** Whether rows of all parts are at multiples of what kernels fetch at a time. */
        private static boolean isAligned(Split split) {
            return split.sizes().stream()
                    .allMatch(size -> size * split.x().dtype().bits() / 8 % CudaProduct.ALIGNMENT == 0);
        }

        private static @Nullable Value whole(Step split) {
            return split.backward()
                    ? split.gradients().getFirst()
                    : split.inputs().getFirst();
        }

        private static List<@Nullable Value> parts(Step split) {
            return split.backward() ? split.upstream() : split.outputs();
        }

        private static boolean isTemporary(@Nullable Value v) {
            return v != null && v.role() == ValueRole.TEMPORARY;
        }

        /** Whether a part is only read, or a part's gradient only written, by kernels that take it so. */
        @SuppressWarnings("ReferenceEquality") // identity, not equality
        private boolean isOfOthers(Step split, @Nullable Value part) {
            return part != null
                    && uses.getOrDefault(part, List.of()).stream()
                            .allMatch(u -> u.step() == split
                                    || (u.role() == (split.backward() ? Role.GRADIENT : Role.INPUT)
                                            && !u.step().accumulated().contains(u.at())
                                            && takesParts(u.step().op(), u.at())));
        }

        private static boolean takesParts(Op op, int input) {
            return Ops.of(op).cuda().takesParts(op, input);
        }

        private Map<Value, Part> placed() {
            Map<Value, Part> parts = new HashMap<>();
            for (Step s : splits) {
                long start = 0;
                List<@Nullable Value> all = parts(s);
                for (int j = 0; j < all.size(); j++) {
                    Value part = all.get(j);
                    Value whole = whole(s);
                    if (part != null && whole != null) {
                        parts.put(part, new Part(whole, start));
                    }
                    start += ((Split) s.op()).sizes().get(j);
                }
            }
            return parts;
        }

        /** Whether a step has an input that lies otherwise than its gradient. */
        @SuppressWarnings("ReferenceEquality") // identity, not equality
        private boolean disagrees(Step split, Map<Value, Part> parts) {
            return parts(split).stream()
                    .filter(p -> p != null)
                    .flatMap(p -> uses.getOrDefault(p, List.of()).stream())
                    .filter(u -> u.step() != split && u.step().backward())
                    .anyMatch(u -> !alike(
                            u.step().inputs().get(u.at()), u.step().gradients().get(u.at()), parts));
        }

        private static boolean alike(@Nullable Value input, @Nullable Value gradient, Map<Value, Part> parts) {
            if (gradient == null || input == null) {
                return true;
            }
            Part x = parts.get(input);
            Part dx = parts.get(gradient);
            if (x == null || dx == null) {
                return x == null && dx == null;
            }
            return x.pitch() == dx.pitch();
        }
    }
}
