package dev.octet.bench;

import ai.onnxruntime.NodeInfo;
import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.TensorInfo;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.LongStream;

/**
 * Times models in ONNX Runtime with default session options: {@code ROUNDS SHAPES MODEL...}, shapes like {@code 1x128,8x128} for all inputs.
 * Each round runs every model in turn at every shape, after one round that is not counted, and prints a JSON line for each: the median and
 * the fastest of its runs in milliseconds. Inputs are noise: token ids between 1000 and 20000, masks of ones, token types of zeros, floats
 * between -1 and 1.
 */
public final class OnnxTimes {
    private static final long ROUND_NANOS = 150_000_000;
    private static final int LEAST_RUNS = 3;
    private static final int MOST_RUNS = 200;
    private static final int FIRST_ID = 1000;
    private static final int LAST_ID = 20_000;

    private OnnxTimes() {}

    /** One model, loaded. */
    private record Loaded(String name, OrtSession session) {}

    public static void main(String[] args) throws OrtException {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: ROUNDS SHAPES MODEL...");
        }
        int rounds = Integer.parseInt(args[0]);
        String[] shapes = args[1].split(",", -1);
        OrtEnvironment environment = OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR, "bench");
        List<Loaded> models = new ArrayList<>();
        for (String name : Arrays.asList(args).subList(2, args.length)) {
            models.add(new Loaded(name, environment.createSession(name, new OrtSession.SessionOptions())));
        }
        for (int round = 0; round <= rounds; round++) {
            for (String shape : shapes) {
                long[] sizes = Arrays.stream(shape.split("x", -1))
                        .mapToLong(Long::parseLong)
                        .toArray();
                for (Loaded model : models) {
                    long[] took = run(environment, model.session(), sizes);
                    if (round > 0) {
                        System.out.printf(
                                Locale.ROOT,
                                "{\"model\": \"%s\", \"shape\": \"%s\", \"round\": %d, \"median_ms\": %.4f,"
                                        + " \"min_ms\": %.4f}%n",
                                model.name(),
                                shape,
                                round,
                                took[took.length / 2] / 1e6,
                                took[0] / 1e6);
                    }
                }
            }
        }
    }

    /** Nanoseconds of runs, sorted. */
    private static long[] run(OrtEnvironment environment, OrtSession session, long[] sizes) throws OrtException {
        Map<String, OnnxTensor> feed = feed(environment, session, sizes);
        try {
            LongStream.Builder took = LongStream.builder();
            long start = System.nanoTime();
            for (int run = 0; run < LEAST_RUNS || (run < MOST_RUNS && System.nanoTime() - start < ROUND_NANOS); run++) {
                long before = System.nanoTime();
                session.run(feed).close();
                took.add(System.nanoTime() - before);
            }
            return took.build().sorted().toArray();
        } finally {
            feed.values().forEach(OnnxTensor::close);
        }
    }

    private static Map<String, OnnxTensor> feed(OrtEnvironment environment, OrtSession session, long[] sizes)
            throws OrtException {
        SplittableRandom random = new SplittableRandom(1);
        Map<String, OnnxTensor> feed = new LinkedHashMap<>();
        for (NodeInfo input : session.getInputInfo().values()) {
            TensorInfo info = (TensorInfo) input.getInfo();
            long[] shape = Arrays.copyOf(sizes, info.getShape().length);
            int count = Math.toIntExact(Arrays.stream(shape).reduce(1, Math::multiplyExact));
            String name = input.getName();
            OnnxTensor tensor;
            if (info.type == OnnxJavaType.FLOAT) {
                FloatBuffer values = FloatBuffer.allocate(count);
                for (int i = 0; i < count; i++) {
                    values.put(i, (float) random.nextDouble(-1, 1));
                }
                tensor = OnnxTensor.createTensor(environment, values, shape);
            } else {
                LongBuffer values = LongBuffer.allocate(count);
                for (int i = 0; i < count; i++) {
                    values.put(
                            i,
                            name.contains("mask") ? 1 : name.contains("type") ? 0 : random.nextInt(FIRST_ID, LAST_ID));
                }
                tensor = OnnxTensor.createTensor(environment, values, shape);
            }
            feed.put(name, tensor);
        }
        return feed;
    }
}
