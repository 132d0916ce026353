// A trainer without Python: each step reads a file, waits a little and computes.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int, char **words) {
    using clock = std::chrono::steady_clock;
    auto begin = clock::now();
    auto now = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
    std::vector<float> data(1 << 18);
    double limit = atof(words[1]), sum = 0;
    int steps = 0;
    while (now() < limit) {
        std::FILE *file = std::fopen(words[2], "rb");
        if (!file || std::fread(data.data(), 4, data.size(), file) == 0) return 1;
        std::fclose(file);
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        double until = now() + 0.2;
        while (now() < until)
            for (float one : data) sum += std::tanh(one > -1 && one < 1 ? one : 1.0f);
        steps++;
    }
    std::printf("{\"steps\": %d, \"elapsed\": %f, \"sum\": %d}\n", steps, now(), sum > 0);
}
