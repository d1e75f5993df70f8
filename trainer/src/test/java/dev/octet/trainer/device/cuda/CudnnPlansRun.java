package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.AttentionPlans.Plan;
import dev.octet.trainer.device.cuda.AttentionPlans.Refusal;
import dev.octet.trainer.device.cuda.CudnnAttribute.Kind;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Gradients;
import dev.octet.trainer.kernel.CudaAttention.Rows;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** What {@link CudnnPlansTest} runs in a JVM of its own: once a process has loaded a driver, it has no other. */
final class CudnnPlansRun {
    private CudnnPlansRun() {}

    /** Its words: shapes, {@code bf16,32,12,12,1024,1024,64,causal,packed,bias}; prints what the library answers for an H200 that is not there. */
    public static void main(String... words) throws IOException {
        LoadedLibrary library = switch (CudaLibraries.ofSystem().find(CudaLibrary.CUDNN)) {
            case LibrarySearch.Found f -> f.loaded();
            case LibrarySearch.Absent a -> {
                System.out.println("absent: " + a.what());
                yield null;
            }
        };
        if (library == null) {
            return;
        }
        Cudnn cudnn = Cudnn.of(library);
        System.out.println("version " + cudnn.versionText());
        long properties = cudnn.create(Kind.DEVICE_PROPERTIES);
        try (InputStream in = CudnnPlansRun.class.getResourceAsStream("h200.json")) {
            String json = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            cudnn.set(properties, CudnnAttribute.DEVICEPROP_JSON_REPRESENTATION, json);
        }
        cudnn.finish(properties, "properties of a GPU");
        try (AttentionPlans plans = new AttentionPlans(cudnn, new AttentionPlans.Target.Properties(properties), 90)) {
            for (String word : words) {
                CudaAttention forward = shape(word.split(",", -1));
                for (CudaAttention a : new CudaAttention[] {forward, backward(forward)}) {
                    System.out.println(a.name() + ": "
                            + switch (plans.of(a)) {
                                case Plan p -> "engine " + p.engine() + ", workspace " + p.bytes();
                                case Refusal r -> "refused: " + r.reason();
                            });
                }
            }
        }
        cudnn.free(properties);
        System.out.println("done");
    }

    private static CudaAttention shape(String[] f) {
        int heads = Integer.parseInt(f[2]);
        int keyHeads = Integer.parseInt(f[3]);
        int queries = Integer.parseInt(f[4]);
        int keys = Integer.parseInt(f[5]);
        int size = Integer.parseInt(f[6]);
        boolean packed = f[8].equals("packed");
        Rows q = rows(queries, size, packed ? heads + 2 * keyHeads : heads);
        Rows k = rows(keys, size, packed ? heads + 2 * keyHeads : keyHeads);
        return new CudaAttention(
                f[0].equals("f16") ? DType.F16 : DType.BF16,
                new Shape(Integer.parseInt(f[1]), heads, keyHeads, queries, keys, size),
                f[7].equals("causal"),
                (float) (1 / Math.sqrt(size)),
                q,
                k,
                k,
                rows(queries, size, heads),
                256,
                f[9].equals("bias") ? 256 : 0,
                null);
    }

    private static CudaAttention backward(CudaAttention a) {
        return a.backward(new Gradients(a.y(), a.q(), a.k(), a.v()));
    }

    /** @param across heads that a row has */
    private static Rows rows(int length, int size, int across) {
        long row = (long) across * size;
        return new Rows(256, row * length, size, row);
    }
}
