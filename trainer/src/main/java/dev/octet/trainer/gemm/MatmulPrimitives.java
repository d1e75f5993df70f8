package dev.octet.trainer.gemm;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.gemm.OneDnn.Operand;
import dev.octet.trainer.gemm.OneDnn.Product;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * oneDNN's compiled products (its primitive {@code matmul}). Each thread caches the most recent ones with their own scratch memory, so
 * threads share nothing; the library itself shares the machine code.
 */
final class MatmulPrimitives {
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
    private static final MemoryLayout POINTER = ValueLayout.ADDRESS;

    // names and numbers of dnnl_types.h and dnnl_common_types.h, version 3
    private static final int CPU_ENGINE = 1;
    private static final int IN_ORDER = 1;
    private static final int UNIMPLEMENTED = 3;
    private static final int USER_SCRATCHPAD = 1;
    private static final int SCRATCHPAD_MD = 136;
    private static final int MOST_DIMENSIONS = 12;
    private static final int[] ARGUMENTS = {1, 33, 17, 80}; // source, weights, destination, scratchpad
    private static final int ARGUMENT_BYTES = 16;

    /** Cache size per thread: several times the number of shapes in a training step. */
    private static final int KEPT = 256;

    private final OneDnn library;
    private final MethodHandle describeMemory;
    private final MethodHandle describeMatmul;
    private final MethodHandle newPrimitive;
    private final MethodHandle newMemory;
    private final MethodHandle newAttributes;
    private final MethodHandle setScratchpad;
    private final MethodHandle newPostOps;
    private final MethodHandle appendSum;
    private final MethodHandle setPostOps;
    private final MethodHandle setHandle;
    private final MethodHandle execute;
    private final MethodHandle query;
    private final MethodHandle size;
    private final MethodHandle destroyPrimitive;
    private final MethodHandle destroyDescription;
    private final MethodHandle destroyMemory;
    private final MethodHandle destroyMemoryDescription;
    private final MethodHandle destroyAttributes;
    private final MethodHandle destroyPostOps;
    private final MemorySegment engine;
    private final MemorySegment stream;
    private final ThreadLocal<Kept> kept = ThreadLocal.withInitial(Kept::new);

    /** Everything a primitive is compiled for. */
    private record Key(
            DType operands,
            DType result,
            int m,
            int n,
            int k,
            boolean transposeA,
            long lda,
            boolean transposeB,
            long ldb,
            long ldc,
            boolean accumulate) {
        static Key of(DType operands, DType result, Product p) {
            return new Key(
                    operands,
                    result,
                    p.m(),
                    p.n(),
                    p.k(),
                    p.a().transposed(),
                    p.a().stride(),
                    p.b().transposed(),
                    p.b().stride(),
                    p.c().stride(),
                    p.accumulate());
        }
    }

    /** What a product works in; products of a thread come one after another, so they share it. */
    private static final Scratch SCRATCHPAD = new Scratch();

    /**
     * A compiled product with its memory objects, the last of them its scratchpad.
     *
     * @param scratchBytes of the scratchpad
     */
    private record Compiled(
            MemorySegment primitive,
            List<MemorySegment> memories,
            MemorySegment arguments,
            long scratchBytes,
            Arena arena) {}

    /** Cache of a thread, least recently used first; an empty entry means that the library has no such product. */
    private final class Kept extends LinkedHashMap<Key, Optional<Compiled>> {
        private static final long serialVersionUID = 1;

        Kept() {
            super(16, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<Key, Optional<Compiled>> eldest) {
            if (size() <= KEPT) {
                return false;
            }
            eldest.getValue().ifPresent(MatmulPrimitives.this::free);
            return true;
        }
    }

    MatmulPrimitives(OneDnn library) {
        this.library = library;
        describeMemory = library.function("dnnl_memory_desc_create_with_strides", POINTER, INT, POINTER, INT, POINTER);
        describeMatmul = library.function(
                "dnnl_matmul_primitive_desc_create", POINTER, POINTER, POINTER, POINTER, POINTER, POINTER, POINTER);
        newPrimitive = library.function("dnnl_primitive_create", POINTER, POINTER);
        newMemory = library.function("dnnl_memory_create", POINTER, POINTER, POINTER, POINTER);
        newAttributes = library.function("dnnl_primitive_attr_create", POINTER);
        setScratchpad = library.function("dnnl_primitive_attr_set_scratchpad_mode", POINTER, INT);
        newPostOps = library.function("dnnl_post_ops_create", POINTER);
        appendSum = library.function("dnnl_post_ops_append_sum", POINTER, ValueLayout.JAVA_FLOAT, INT, INT);
        setPostOps = library.function("dnnl_primitive_attr_set_post_ops", POINTER, POINTER);
        setHandle = library.function("dnnl_memory_set_data_handle", POINTER, POINTER);
        execute = library.function("dnnl_primitive_execute", POINTER, POINTER, INT, POINTER);
        query = library.function(
                "dnnl_primitive_desc_query_md", FunctionDescriptor.of(ValueLayout.ADDRESS, POINTER, INT, INT));
        size = library.function("dnnl_memory_desc_get_size", FunctionDescriptor.of(LONG, POINTER));
        destroyPrimitive = library.function("dnnl_primitive_destroy", POINTER);
        destroyDescription = library.function("dnnl_primitive_desc_destroy", POINTER);
        destroyMemory = library.function("dnnl_memory_destroy", POINTER);
        destroyMemoryDescription = library.function("dnnl_memory_desc_destroy", POINTER);
        destroyAttributes = library.function("dnnl_primitive_attr_destroy", POINTER);
        destroyPostOps = library.function("dnnl_post_ops_destroy", POINTER);
        engine = made(library.function("dnnl_engine_create", POINTER, INT, LONG), CPU_ENGINE, 0L);
        stream = made(library.function("dnnl_stream_create", POINTER, POINTER, INT), engine, IN_ORDER);
    }

    /**
     * C = A·B or C += A·B, rounded once to the type of the result.
     *
     * @return false when the library has no such product; C is then unchanged
     */
    boolean multiply(DType operands, DType result, Product p) {
        library.alone();
        Key key = Key.of(operands, result, p);
        Kept own = kept.get();
        Optional<Compiled> compiled = own.get(key);
        if (compiled == null) {
            compiled = compile(key);
            own.put(key, compiled);
        }
        compiled.ifPresent(c -> run(c, p));
        return compiled.isPresent();
    }

    private void run(Compiled compiled, Product p) {
        Operand[] operands = {p.a(), p.b(), p.c()};
        try {
            for (int i = 0; i < operands.length; i++) {
                OneDnn.check((int) setHandle.invokeExact(compiled.memories.get(i), operands[i].bytes()));
            }
            OneDnn.check((int) setHandle.invokeExact(
                    compiled.memories.getLast(), SCRATCHPAD.room(Math.max(64, compiled.scratchBytes))));
            OneDnn.check((int) execute.invokeExact(compiled.primitive, stream, ARGUMENTS.length, compiled.arguments));
        } catch (Throwable e) {
            throw OneDnn.unexpected(e);
        }
    }

    private Optional<Compiled> compile(Key key) {
        MemorySegment a = matrix(key.operands, key.m, key.k, key.lda, key.transposeA);
        MemorySegment b = matrix(key.operands, key.k, key.n, key.ldb, key.transposeB);
        MemorySegment c = matrix(key.result, key.m, key.n, key.ldc, false);
        MemorySegment attributes = attributes(key.accumulate);
        Arena arena = Arena.ofAuto();
        try (Arena call = Arena.ofConfined()) {
            MemorySegment out = call.allocate(ValueLayout.ADDRESS);
            int status = (int) describeMatmul.invokeExact(out, engine, a, b, MemorySegment.NULL, c, attributes);
            if (status == UNIMPLEMENTED) {
                return Optional.empty();
            }
            OneDnn.check(status);
            MemorySegment description = out.get(ValueLayout.ADDRESS, 0);
            MemorySegment scratchpad = (MemorySegment) query.invokeExact(description, SCRATCHPAD_MD, 0);
            long bytes = (long) size.invokeExact(scratchpad);
            List<MemorySegment> memories = List.of(memory(a), memory(b), memory(c), memory(scratchpad));
            MemorySegment arguments = arena.allocate((long) ARGUMENT_BYTES * ARGUMENTS.length, 8);
            for (int i = 0; i < ARGUMENTS.length; i++) {
                arguments.set(INT, (long) i * ARGUMENT_BYTES, ARGUMENTS[i]);
                arguments.set(ValueLayout.ADDRESS, (long) i * ARGUMENT_BYTES + 8, memories.get(i));
            }
            MemorySegment primitive = made(newPrimitive, description);
            destroy(destroyDescription, description);
            return Optional.of(new Compiled(primitive, memories, arguments, bytes, arena));
        } catch (Throwable e) {
            throw OneDnn.unexpected(e);
        } finally {
            destroy(destroyMemoryDescription, a);
            destroy(destroyMemoryDescription, b);
            destroy(destroyMemoryDescription, c);
            destroy(destroyAttributes, attributes);
        }
    }

    private MemorySegment attributes(boolean accumulate) {
        MemorySegment attributes = made(newAttributes);
        try {
            OneDnn.check((int) setScratchpad.invokeExact(attributes, USER_SCRATCHPAD));
            if (accumulate) {
                MemorySegment sum = made(newPostOps);
                OneDnn.check((int) appendSum.invokeExact(sum, 1f, 0, 0));
                OneDnn.check((int) setPostOps.invokeExact(attributes, sum));
                destroy(destroyPostOps, sum);
            }
        } catch (Throwable e) {
            throw OneDnn.unexpected(e);
        }
        return attributes;
    }

    private MemorySegment matrix(DType type, long rows, long columns, long stride, boolean transposed) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment dims = call.allocate(LONG, MOST_DIMENSIONS);
            dims.setAtIndex(LONG, 0, rows);
            dims.setAtIndex(LONG, 1, columns);
            MemorySegment strides = call.allocate(LONG, MOST_DIMENSIONS);
            strides.setAtIndex(LONG, 0, transposed ? 1 : stride);
            strides.setAtIndex(LONG, 1, transposed ? stride : 1);
            return made(describeMemory, 2, dims, number(type), strides);
        }
    }

    /** {@code dnnl_data_type_t}. */
    private static int number(DType type) {
        return switch (type) {
            case F16 -> 1;
            case BF16 -> 2;
            case F32 -> 3;
            default -> throw new IllegalArgumentException("no products of " + type);
        };
    }

    /** A memory object that is given its bytes at each call. */
    private MemorySegment memory(MemorySegment description) {
        return made(newMemory, description, engine, MemorySegment.NULL);
    }

    /** Calls a function of the library that returns a new object through its first argument. */
    private static MemorySegment made(MethodHandle function, Object... arguments) {
        try (Arena call = Arena.ofConfined()) {
            MemorySegment out = call.allocate(ValueLayout.ADDRESS);
            Object[] all = new Object[arguments.length + 1];
            all[0] = out;
            System.arraycopy(arguments, 0, all, 1, arguments.length);
            OneDnn.check((int) function.invokeWithArguments(all));
            return out.get(ValueLayout.ADDRESS, 0);
        } catch (Throwable e) {
            throw OneDnn.unexpected(e);
        }
    }

    private void free(Compiled compiled) {
        destroy(destroyPrimitive, compiled.primitive);
        for (MemorySegment memory : compiled.memories) {
            destroy(destroyMemory, memory);
        }
    }

    private static void destroy(MethodHandle function, MemorySegment object) {
        try {
            OneDnn.check((int) function.invokeExact(object));
        } catch (Throwable e) {
            throw OneDnn.unexpected(e);
        }
    }
}
