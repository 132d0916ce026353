"""Rules about saved tensors: units, experts, trees and statistics."""
