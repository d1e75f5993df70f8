package dev.octet.trainer.device.reference;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Persistent values as doubles, by name. */
final class ReferenceMemory implements Memory {
    private final Map<String, double[]> held = new HashMap<>();

    /** Names of values with initial or written elements: states are initialised only once. */
    private final Set<String> filled = new HashSet<>();

    /** The elements of a value; zeros on first use. */
    double[] elements(Value value) {
        return held.computeIfAbsent(value.name(), n -> zeros(value));
    }

    static double[] zeros(Value value) {
        return new double[Math.toIntExact(value.type().count())];
    }

    /** Allocates what a program needs and is not there yet; initialises new states. */
    void admit(Program program) {
        program.stored().forEach((v, t) -> {
            if (filled.add(v.name())) {
                load(v.type(), t.bytes(), elements(v));
            }
        });
        for (Value v : program.lasting()) {
            double[] all = elements(v);
            List<Float> initial = program.initialStates().get(v);
            if (initial != null && filled.add(v.name())) {
                for (int i = 0; i < all.length; i++) {
                    all[i] = initial.get(initial.size() == 1 ? 0 : i);
                }
            }
        }
    }

    /** Widens stored elements to F64. */
    static void load(OperandType type, MemorySegment bytes, double[] to) {
        CpuTensor t = new CpuTensor(type, bytes);
        float[] one = new float[1];
        for (int i = 0; i < to.length; i++) {
            switch (type.dtype()) {
                case F64 -> to[i] = bytes.get(Tensor.F64_LE, i * 8L);
                case F32, F16, BF16 -> {
                    t.read(i, one, 0, 1);
                    to[i] = one[0];
                }
                case F8_E4M3FN, F8_E5M2 ->
                    to[i] = Float8Format.of(type.dtype())
                            .orElseThrow()
                            .decode(bytes.get(ValueLayout.JAVA_BYTE, i) & 0xFF);
                default -> to[i] = t.readLong(i);
            }
        }
    }

    /** Rounds elements to their stored type, to nearest even. */
    static void store(OperandType type, double[] from, MemorySegment bytes) {
        CpuTensor t = new CpuTensor(type, bytes);
        float[] one = new float[1];
        for (int i = 0; i < from.length; i++) {
            switch (type.dtype()) {
                case F64 -> bytes.set(Tensor.F64_LE, i * 8L, from[i]);
                case F32, F16, BF16 -> {
                    one[0] = (float) from[i];
                    t.write(i, one, 0, 1);
                }
                case F8_E4M3FN, F8_E5M2 -> // held as the numbers that the codes stand for
                    bytes.set(ValueLayout.JAVA_BYTE, i, (byte)
                            Float8Format.of(type.dtype()).orElseThrow().encode((float) from[i], Overflow.SATURATE));
                default -> t.writeLong(i, (long) from[i]);
            }
        }
    }

    @Override
    public void write(Value value, MemorySegment bytes) {
        filled.add(value.name());
        load(value.type(), bytes, elements(value));
    }

    @Override
    public void read(Value value, MemorySegment bytes) {
        store(value.type(), elements(value), bytes);
    }

    @Override
    public void zero(Value value) {
        filled.add(value.name());
        Arrays.fill(elements(value), 0);
    }

    @Override
    public void close() {}
}
