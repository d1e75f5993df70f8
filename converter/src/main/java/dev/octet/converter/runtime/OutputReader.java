package dev.octet.converter.runtime;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;

/** Converts ONNX Runtime's tensors to F32 tensors of Octet. */
final class OutputReader {
    private OutputReader() {}

    static boolean isNumeric(OnnxTensor t) {
        return t.getInfo().type != OnnxJavaType.STRING && t.getInfo().type != OnnxJavaType.UNKNOWN;
    }

    static Tensor toF32(String name, OnnxTensor t) {
        return new Tensor(
                new TensorSpec(name, DType.F32, Shape.of(t.getInfo().getShape())), MemorySegment.ofArray(floats(t)));
    }

    static Tensor asIs(String name, OnnxTensor t) {
        ByteBuffer bytes = t.getByteBuffer();
        return new Tensor(
                new TensorSpec(
                        name, dtype(t.getInfo().type), Shape.of(t.getInfo().getShape())),
                MemorySegment.ofBuffer(bytes));
    }

    private static DType dtype(OnnxJavaType type) {
        return switch (type) {
            case FLOAT -> DType.F32;
            case FLOAT16 -> DType.F16;
            case BFLOAT16 -> DType.BF16;
            case DOUBLE -> DType.F64;
            case INT64 -> DType.I64;
            case INT32 -> DType.I32;
            case INT16 -> DType.I16;
            case INT8 -> DType.I8;
            case UINT8 -> DType.U8;
            case BOOL -> DType.BOOL;
            case STRING, UNKNOWN -> throw new IllegalArgumentException(type + " is not numeric");
        };
    }

    private static float[] floats(OnnxTensor t) {
        return switch (t.getInfo().type) {
            case FLOAT, FLOAT16, BFLOAT16 -> of(t.getFloatBuffer());
            case DOUBLE -> of(t.getDoubleBuffer());
            case INT64 -> of(t.getLongBuffer());
            case INT32 -> of(t.getIntBuffer());
            case INT16 -> of(t.getShortBuffer());
            case INT8, BOOL -> of(t.getByteBuffer(), 0xFFFFFFFF);
            case UINT8 -> of(t.getByteBuffer(), 0xFF);
            case STRING, UNKNOWN -> throw new IllegalArgumentException(t.getInfo() + " is not numeric");
        };
    }

    /** ONNX Runtime returns a new heap buffer on each call, so its array needs no copy. */
    private static float[] of(FloatBuffer b) {
        if (b.hasArray() && b.arrayOffset() == 0 && b.array().length == b.remaining()) {
            return b.array();
        }
        float[] f = new float[b.remaining()];
        b.get(f);
        return f;
    }

    private static float[] of(DoubleBuffer b) {
        float[] f = new float[b.remaining()];
        for (int i = 0; i < f.length; i++) {
            f[i] = (float) b.get();
        }
        return f;
    }

    private static float[] of(LongBuffer b) {
        float[] f = new float[b.remaining()];
        for (int i = 0; i < f.length; i++) {
            f[i] = b.get();
        }
        return f;
    }

    private static float[] of(IntBuffer b) {
        float[] f = new float[b.remaining()];
        for (int i = 0; i < f.length; i++) {
            f[i] = b.get();
        }
        return f;
    }

    private static float[] of(ShortBuffer b) {
        float[] f = new float[b.remaining()];
        for (int i = 0; i < f.length; i++) {
            f[i] = b.get();
        }
        return f;
    }

    private static float[] of(ByteBuffer b, int mask) {
        float[] f = new float[b.remaining()];
        for (int i = 0; i < f.length; i++) {
            f[i] = b.get() & mask;
        }
        return f;
    }
}
