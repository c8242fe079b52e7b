import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs command-line tools one after the other in one JVM. A line on standard
 * input is a class and its arguments, separated by tabs. What the tool wrote
 * comes out with "| " before each line, and at its end "= " and its exit code.
 */
public class Tools {
    private static final class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        // Scala's Console keeps the stream that it finds first: so there is one for all.
        PrintStream all = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(all);
        System.setErr(all);
        Exit.setExitProcedure((code, message) -> { throw new Exited(code); });
        Exit.setHaltProcedure((code, message) -> { throw new Exited(code); });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split("\t", -1);
            said.reset();
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length), all);
            all.flush();
            for (String l : said.toString(StandardCharsets.UTF_8).split("\n")) {
                out.println("| " + l);
            }
            out.println("= " + code);
            out.flush();
        }
    }

    private static int run(String tool, String[] args, PrintStream out) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
            return 0;
        } catch (InvocationTargetException e) {
            for (Throwable t = e.getCause(); t != null; t = t.getCause()) {
                if (t instanceof Exited) {
                    return ((Exited) t).code;
                }
            }
            out.println("uncaught: " + e.getCause());
            return 1;
        } catch (ReflectiveOperationException e) {
            out.println("no such tool: " + e);
            return 127;
        }
    }
}
