package dev.octet.bench.gpu;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.device.cuda.CudaDevice;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.GpuReport;
import dev.octet.trainer.device.cuda.Gpus;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * One measurement of GPU 0, or on the GPU it is given, as one JSON line:
 *
 * <pre>
 * facts                                       what there is of GPUs and CUDA; needs none
 * limits                                      copies and large products
 * products ROWSxINxOUT...                     the three FP8 products of Linears
 * cast ROWSxCOLS                              codes, transpose and amax in one launch
 * attention BATCHxHEADSxKEYHEADSxROWSxSIZE... cuDNN's attention, causal, forward and backward
 * sums FILE                                   FP8 products with their operands, bit by bit
 * make MODEL FOLDER                           writes a model; needs no GPU
 * step MODEL bf16|fp8 FOLDER BATCH STEPS      training steps, peak memory, a table of kernels
 * </pre>
 *
 * Exit codes: 0, 2 for arguments that are wrong, 5 when there is no GPU that Octet can use.
 */
public final class GpuBench {
    private static final int USAGE = 2;
    private static final int UNAVAILABLE = 5;

    private final Supplier<Gpu> gpus;
    private final Limits.Size size;
    private final Timing timing;

    /** @param gpus opens the GPU, which is closed here */
    GpuBench(Supplier<Gpu> gpus, Limits.Size size, Timing timing) {
        this.gpus = gpus;
        this.size = size;
        this.timing = timing;
    }

    /** Measures what the arguments say. */
    public static void main(String[] args) throws IOException {
        GpuBench bench = new GpuBench(() -> Gpus.find(0).orThrow(), Limits.Size.LARGE, Timing.STEADY);
        System.exit(bench.run(List.of(args), System.out, System.err));
    }

    /** The exit code. */
    int run(List<String> args, PrintStream out, PrintStream err) throws IOException {
        try {
            out.println(new ObjectMapper().writeValueAsString(measure(args)));
            return 0;
        } catch (OctetException e) {
            err.println(e.getMessage());
            return e instanceof UnavailableException ? UNAVAILABLE : USAGE;
        }
    }

    private Map<String, Object> measure(List<String> args) throws IOException {
        String what = args.isEmpty() ? "" : args.getFirst();
        if (what.equals("make") && args.size() == 3) {
            MadeModel model = Subject.of(args.get(1)).model();
            model.write(Path.of(args.get(2)), 1);
            return Map.of("parameters", model.parameters());
        }
        if (what.equals("facts") && args.size() == 1) {
            GpuReport report = Gpus.report();
            return Map.of("facts", Map.of("gpus", report.gpus(), "parts", report.parts()));
        }
        boolean known = switch (what) {
            case "limits" -> args.size() == 1;
            case "products", "attention" -> args.size() > 1;
            case "cast", "sums" -> args.size() == 2;
            case "step" -> args.size() == 6;
            default -> false;
        };
        if (!known) {
            throw new InvalidOptionException(
                    "unknown arguments: " + String.join(" ", args),
                    "GpuBench",
                    "facts | limits | products ROWSxINxOUT... | attention BATCHxHEADSxKEYHEADSxROWSxSIZE... | cast"
                            + " ROWSxCOLS | sums FILE | make MODEL FOLDER | step MODEL bf16|fp8 FOLDER BATCH STEPS");
        }
        Gpu gpu = gpus.get();
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("gpu", gpu.info());
        switch (what) {
            case "step" -> step(args, new MeasuredGpu(gpu), result);
            case "limits" -> {
                try (gpu) {
                    result.put("limits", Limits.measure(gpu, size, timing));
                }
            }
            case "products" -> {
                try (gpu) {
                    result.put("products", products(gpu, args.subList(1, args.size())));
                }
            }
            case "attention" -> {
                try (gpu) {
                    result.put("attention", attention(gpu, args.subList(1, args.size())));
                }
            }
            case "sums" -> {
                try (gpu) {
                    result.put("sums", Fp8Sums.write(gpu, Path.of(args.get(1))));
                }
            }
            default -> {
                try (gpu) {
                    int[] dims = sizes(args.get(1), 2);
                    result.put("cast", CastTime.measure(gpu, dims[0], dims[1], timing));
                }
            }
        }
        return result;
    }

    private List<Map<String, Object>> products(Gpu gpu, List<String> shapes) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (String shape : shapes) {
            int[] dims = sizes(shape, 3);
            for (MeasuredProduct p : MeasuredProduct.ofLinear(dims[0], dims[1], dims[2])) {
                double micros = p.micros(gpu, timing);
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("shape", shape);
                row.put("role", p.role());
                row.put("micros", micros);
                row.put("teraflops", p.flops() / micros / 1e6);
                all.add(row);
            }
        }
        return all;
    }

    private List<Map<String, Object>> attention(Gpu gpu, List<String> shapes) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (String shape : shapes) {
            int[] dims = sizes(shape, 5);
            for (boolean backward : new boolean[] {false, true}) {
                MeasuredAttention a = new MeasuredAttention(dims[0], dims[1], dims[2], dims[3], dims[4], backward);
                double micros = a.micros(gpu, timing);
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("shape", shape);
                row.put("role", backward ? "backward" : "forward");
                row.put("micros", micros);
                row.put("teraflops", a.flops() / micros / 1e6);
                row.put("workspace_bytes", a.workspaceBytes(gpu));
                all.add(row);
            }
        }
        return all;
    }

    private void step(List<String> args, MeasuredGpu gpu, Map<String, Object> result) throws IOException {
        StepTime.Task task = new StepTime.Task(
                Subject.of(args.get(1)), args.get(2), Integer.parseInt(args.get(4)), Integer.parseInt(args.get(5)));
        try (CudaDevice device = new CudaDevice(gpu)) {
            Limits limits = Limits.measure(gpu, size, timing);
            gpu.forgetPeak();
            StepTime time = StepTime.measure(task, Path.of(args.get(3)), device, last -> {
                gpu.time(true);
                last.run();
                gpu.time(false);
            });
            double millis = time.medianMillis();
            result.put("limits", limits);
            result.put("parameters", time.parameters());
            result.put("millis", time.millis());
            result.put("median_ms", millis);
            result.put(
                    "per_second", 1e3 / millis * task.batch() * task.subject().units());
            result.put("unit", task.subject().unit());
            result.put("peak_bytes", gpu.peakBytes());
            result.put("losses", time.losses());
            result.put("kernels", kernels(gpu.times(), limits));
        }
    }

    private static List<Map<String, Object>> kernels(List<KernelTime> times, Limits limits) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (KernelTime t : times) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("name", t.name());
            row.put("runs", t.runs());
            row.put("micros", t.micros());
            row.put("bytes", t.bytes());
            row.put("flops", t.flops());
            row.put("of_limit", t.ofLimit(limits));
            all.add(row);
        }
        return all;
    }

    /** {@code 4096x1280x3840} as numbers. */
    private static int[] sizes(String text, int count) {
        if (!text.matches("\\d{1,6}(x\\d{1,6}){" + (count - 1) + "}")) {
            throw new InvalidOptionException(
                    text + " is not a shape", "GpuBench", "give " + count + " numbers with x between them");
        }
        return Arrays.stream(text.split("x", -1)).mapToInt(Integer::parseInt).toArray();
    }
}
